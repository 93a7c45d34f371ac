"""A finished run, asked another question: any attack its signals allow, without training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from leakscope.attacks.base import Attack
from leakscope.attacks.spec import resolve_all
from leakscope.audits.settings import JUDGING, ResolvedSettings
from leakscope.audits.source import Evidence, Progress, Sizes
from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results
from leakscope.errors import InputError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults, EvaluationConfig


@dataclass(frozen=True)
class FinishedRun:
    """A run folder of an audit.

    Attributes:
        folder: the run folder; it is also where the new results are written.
    """

    folder: Path

    uses: ClassVar[frozenset[str]] = JUDGING

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks the run was asked about earlier."""
        return resolve_all(read_results(self.folder, AuditResults).config.attacks)

    def prepare(self, settings: ResolvedSettings) -> PreparedRun:
        """Checks that the bank holds the signals the attacks need."""
        bank, earlier = Bank.open(self.folder), read_results(self.folder, AuditResults).config
        stored = set(bank.signals().arrays)
        for attack in settings.attacks:
            missing = sorted(set(attack.needs) - stored)
            if missing:
                raise InputError(
                    f"{attack.label} needs the signals {', '.join(missing)}, but {self.folder} stores "
                    f"{', '.join(sorted(stored))}; train again in another folder with signals = {missing}"
                )
        budgets = tuple(sorted({*earlier.fpr_budgets, *settings.fpr_budgets}, reverse=True))
        gate = settings.gate or earlier.gate
        config = replace(earlier, attacks=settings.attack_specs, fpr_budgets=budgets, gate=gate)
        return PreparedRun(bank, config)


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A finished run and its new question."""

    bank: Bank
    config: EvaluationConfig
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
        return Evidence(self.bank, RecordMetadata.read(folder), self.config)
