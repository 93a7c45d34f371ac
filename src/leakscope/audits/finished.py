"""A finished run, judged again: by any attack its signals allow, without training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from leakscope.attacks.base import Attack
from leakscope.attacks.spec import resolve_all
from leakscope.audits.run import KIND
from leakscope.audits.settings import JUDGING, ResolvedSettings
from leakscope.audits.source import Evidence, Progress, Sizes
from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results
from leakscope.bank.run_folder import read_run
from leakscope.errors import InputError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults, EvaluationConfig


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run folder of an audit.

    Attributes:
        folder: the run folder; it is also where the new results are written.
    """

    folder: Path | str

    uses: ClassVar[frozenset[str]] = JUDGING

    @cached_property
    def earlier(self) -> EvaluationConfig:
        """What the run measured so far."""
        folder = Path(self.folder)
        kind, _ = read_run(folder)
        if kind != KIND:
            raise InputError(f"{folder} is a run of kind {kind!r}; only audits can be judged again")
        return read_results(folder, AuditResults).config

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks the run was judged by earlier."""
        return resolve_all(self.earlier.attacks)

    @property
    def default_fpr_budgets(self) -> tuple[float, ...]:
        """Those of the run."""
        return self.earlier.fpr_budgets

    def prepare(self, settings: ResolvedSettings) -> PreparedRun:
        """Checks that the bank holds the signals the attacks need."""
        bank, earlier = Bank.open(Path(self.folder)), self.earlier
        stored = set(bank.signals().arrays)
        for attack in settings.attacks:
            missing = sorted(set(attack.needs) - stored)
            if missing:
                raise InputError(
                    f"{attack.label} needs the signals {', '.join(missing)}, but {self.folder} stores "
                    f"{', '.join(sorted(stored))}; train again in another folder with signals = {missing}"
                )
        budgets = tuple(dict.fromkeys([*earlier.fpr_budgets, *settings.fpr_budgets]))
        config = replace(earlier, attacks=settings.attack_specs, fpr_budgets=budgets)
        gate = settings.gate
        if gate is not None:
            config = replace(config, gate=gate, delta=gate.delta, confidence=gate.confidence)
        return PreparedRun(bank, config, RecordMetadata.read(Path(self.folder)))


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A finished run, and what to measure on it."""

    bank: Bank
    config: EvaluationConfig
    metadata: RecordMetadata
    request: ClassVar[None] = None

    @property
    def sizes(self) -> Sizes:
        """Members and non-members of the first target, and the number of models."""
        design = self.bank.design()
        target = self.config.targets[0] if self.config.targets else 0
        n_members = int(design.in_mask[target].sum())
        return Sizes(n_members, design.n_records - n_members, design.n_models, design.n_records)

    def collect(self, folder: Path, progress: Progress) -> Evidence:
        """Reads what the run stores; trains nothing."""
        return Evidence(self.bank, self.metadata, self.config)
