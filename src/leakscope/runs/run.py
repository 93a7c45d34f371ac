"""A finished audit, opened: its verdict, its models' outputs, the scores of any attack, its records.

run = leakscope.open_run("runs/demo")
print(run.verdict)
run.scores("rmia").values          # (targets, records), for run.scores("rmia").ids
run.records                        # a polars table, one row per record: id, label, groups, risk, bits
run.roc("eb_lira", target=0)       # a curve; draws itself in a notebook
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.spec import AttackSpec, resolve
from leakscope.audits.finished import FinishedRun
from leakscope.audits.run import KIND, audit
from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results
from leakscope.bank.run_folder import read_run
from leakscope.disk.parquet import read_stored
from leakscope.errors import InputError
from leakscope.evaluate.attacked import converged_models
from leakscope.evaluate.judge import RECORDS
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.verdict import Verdict
from leakscope.report.notebook import roc_picture
from leakscope.stats.roc import Roc, roc
from leakscope.types import Design, Signals

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class RunScores:
    """The scores of one attack; higher means member.

    Attributes:
        attack: label of the attack.
        values: float64 (targets, records).
        is_member: bool (targets, records).
        targets: int64 (targets,), indices of the models that were attacked.
        ids: str (records,), of the records.
    """

    attack: str
    values: FloatArray
    is_member: BoolArray
    targets: IntArray
    ids: npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class RunRoc(Roc):
    """A ROC curve that draws itself in a notebook."""

    def _repr_html_(self) -> str:
        return roc_picture(self)


class Run:
    """The run folder of a finished audit; only `judge` changes anything in it."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        kind, _ = read_run(self.folder)
        if kind != KIND:
            raise InputError(f"{self.folder} is a run of kind {kind!r}; open_run opens audits")

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def results(self) -> AuditResults:
        """Every figure, typed."""
        return read_results(self.folder, AuditResults)

    @property
    def verdict(self) -> Verdict:
        """The judged result; `print` it for a summary."""
        return Verdict(self.results, self.folder)

    @cached_property
    def bank(self) -> Bank:
        """The models' outputs on disk, with the design and the labels."""
        return Bank.open(self.folder)

    @cached_property
    def metadata(self) -> RecordMetadata:
        """Ids, labels and groups of the records."""
        return RecordMetadata.read(self.folder)

    @property
    def signals(self) -> Signals:
        """The signals of the models that converged, (models, checkpoints, records) each."""
        return self._converged[0]

    @property
    def design(self) -> Design:
        """Which of these models were trained on which records."""
        return self._converged[1]

    @property
    def records(self) -> pl.DataFrame:
        """One row per record, or per unit: id, label, groups, risk with its interval, bits."""
        return read_stored(self.folder / RECORDS)

    def scores(self, attack: AttackSpec) -> RunScores:
        """The scores of any attack that the stored signals allow; computed anew, nothing is written."""
        signals, design = self._converged
        chosen = self.results.config.targets
        targets = np.arange(design.n_models) if chosen is None else np.asarray(chosen, dtype=np.int64)
        scored = resolve(attack)(signals, design, targets)
        whose = self.metadata.of_units(design.units, self.results.config.unit).names
        return RunScores(scored.attack, scored.values, design.of_units.rows(targets), targets, whose)

    def roc(self, attack: AttackSpec, target: int = 0) -> RunRoc:
        """The ROC curve of an attack on one target.

        Args:
            attack: any attack that the stored signals allow.
            target: position among the run's targets.
        """
        scored = self.scores(attack)
        if not 0 <= target < len(scored.targets):
            raise InputError(f"target={target}: the run has targets 0 to {len(scored.targets) - 1}")
        curve = roc(scored.values[target], scored.is_member[target])
        return RunRoc(curve.fpr, curve.tpr, curve.thresholds, curve.n_members, curve.n_nonmembers)

    def judge(self, *attacks: AttackSpec) -> Verdict:
        """Adds attacks to the run's results and reports, without training."""
        return audit(FinishedRun(self.folder), out=self.folder, attacks=attacks or None)

    @cached_property
    def _converged(self) -> tuple[Signals, Design]:
        return converged_models(self.bank)


def open_run(folder: Path | str) -> Run:
    """Opens the run folder of a finished audit."""
    return Run(folder)
