"""A finished run, judged again: by any attack its signals allow, without training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from leakscope.attacks.base import Attack, check_checkpoints
from leakscope.attacks.spec import resolve_all
from leakscope.audits.run import KIND
from leakscope.audits.settings import JUDGING, ResolvedSettings
from leakscope.audits.source import Evidence, PreparedAudit, check_claimed, refuse_claim
from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results
from leakscope.bank.run_folder import read_run
from leakscope.errors import InputError
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults
from leakscope.signals.registry import QUERY_LOG_ODDS, Task, task_of
from leakscope.user_code import named_by_a_run


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
    def task(self) -> Task:
        """Of the run's models."""
        signals = Bank.open(Path(self.folder)).signals()
        return task_of(signals.labels, signals.arrays)

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks the run was judged by earlier."""
        with named_by_a_run():
            return resolve_all(self.earlier.attacks)

    @property
    def default_fpr_budgets(self) -> tuple[float, ...]:
        """Those of the run."""
        return self.earlier.fpr_budgets

    def prepare(self, settings: ResolvedSettings) -> PreparedAudit:
        """Checks that the bank holds the signals the attacks need."""
        bank, earlier = Bank.open(Path(self.folder)), self.earlier
        stored = set(bank.signals().arrays)
        for attack in settings.attacks:
            missing = sorted(set(attack.reads(self.task)) - stored)
            if missing:
                remedy = "queries = 4" if QUERY_LOG_ODDS in missing else f"signals = {missing}"
                raise InputError(
                    f"{attack.label} needs the signals {', '.join(missing)}, but {self.folder} stores "
                    f"{', '.join(sorted(stored))}; train again in another folder with {remedy}"
                )
        n_checkpoints = len(bank.identity.evaluated_epochs)
        remedy = "audit a population" if earlier.targets is not None else "train again in another folder"
        otherwise = f"{self.folder} stores one checkpoint; {remedy} with several training.checkpoints"
        check_checkpoints(settings.attacks, n_checkpoints, otherwise)
        budgets = tuple(dict.fromkeys([*earlier.fpr_budgets, *settings.fpr_budgets]))
        config = replace(earlier, attacks=settings.attack_specs, fpr_budgets=budgets)
        gate = settings.gate
        if gate is not None:
            config = replace(config, gate=gate, delta=gate.delta, confidence=gate.confidence)
        if settings.claim is not None:
            refuse_claim(config)
            config = replace(config, claim=settings.claim)
            check_claimed(config, bank.design())
        evidence = Evidence(bank, RecordMetadata.read(Path(self.folder)), config)
        design = bank.design()
        targets = np.array(config.targets or range(design.n_models))
        return PreparedAudit(
            config, design.of_units.rows(targets), design.n_models, lambda _folder, _progress: evidence
        )
