"""A bank with the scores of the attacks on its models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.registry import PER_RECORD
from leakscope.attacks.spec import resolve_all
from leakscope.bank.bank import Bank
from leakscope.design import on_records, unit_means
from leakscope.disk.scratch import Scratch, gather_records
from leakscope.evaluate.config import EvaluationConfig
from leakscope.types import Design, Scores, Signals


class Attacked(NamedTuple):
    """A bank and the scores of the attacks on its models; models that diverged are left out.

    Attributes:
        bank: the bank.
        signals: signals of the models that converged.
        design: who was in which training set, record by record.
        targets: int64 (targets,), the models attacked.
        scores: label of each attack -> its scores, one for each unit.
        fitted: label of each attack -> the attack as it was scored.
    """

    bank: Bank
    signals: Signals
    design: Design
    targets: IntArray
    scores: Mapping[str, Scores]
    fitted: Mapping[str, Attack]

    @property
    def memberships(self) -> Design:
        """Which units are members of which model; the design itself where every record is a unit."""
        return self.design.of_units

    def means_of_units(self, names: Sequence[str]) -> Signals:
        """The named signals, averaged over the records of each unit; they are not copied without need."""
        units, signals = self.design.units, self.signals
        arrays = {name: signals.arrays[name] for name in names if name in signals.arrays}
        if units is None:
            return Signals(arrays, signals.epochs, signals.labels)
        scratch = self.bank.scratch
        means = {
            name: np.moveaxis(unit_means(np.moveaxis(array, 2, 1), units, scratch), 1, 2)
            for name, array in arrays.items()
        }
        first = np.unique(units, return_index=True)[1]
        return Signals(means, signals.epochs, signals.labels[..., first])

    def units_of(self, records: IntArray) -> IntArray:
        """The units that some records belong to, ascending; int64 (units,)."""
        return records if self.design.units is None else np.unique(self.design.units[records])

    def inverted(self, labels: Collection[str]) -> Attacked:
        """The same, where the scores of these attacks have the opposite sign."""

        def negated(values: FloatArray) -> FloatArray:
            return np.negative(values, out=self.bank.scratch.empty(values.shape))

        own = {label: self.scores[label] for label in labels}
        turned = {label: Scores(label, one.targets, negated(one.values)) for label, one in own.items()}
        return self._replace(scores={**self.scores, **turned})

    def without(self, canaries: IntArray) -> Attacked:
        """The same of all records but the canaries, which were attacked with them."""
        if not len(canaries):
            return self
        scratch = self.bank.scratch
        own = np.setdiff1d(np.arange(self.memberships.n_records), self.units_of(canaries))
        return Attacked(
            self.bank,
            *without_records(self.signals, self.design, canaries, scratch),
            self.targets,
            {
                label: Scores(label, scores.targets, gather_records(scores.values, own, 1, scratch))
                for label, scores in self.scores.items()
            },
            self.fitted,
        )


def without_records(
    signals: Signals, design: Design, records: IntArray, scratch: Scratch
) -> tuple[Signals, Design]:
    """Signals and design of all records but these, on `scratch`."""
    if not len(records):
        return signals, design
    own = np.setdiff1d(np.arange(design.n_records), records)
    arrays = {name: gather_records(array, own, 2, scratch) for name, array in signals.arrays.items()}
    return Signals(arrays, signals.epochs, signals.labels[..., own]), on_records(design, own, scratch)


def attacked(bank: Bank, config: EvaluationConfig) -> Attacked:
    """Runs the attacks, and the per-record attack where several targets allow it."""
    signals, design = converged_models(bank)
    targets = np.arange(design.n_models) if config.targets is None else np.array(config.targets, np.int64)
    attacks = {attack.label: attack for attack in resolve_all(config.attacks)}
    if len(targets) > 1 and all(name in signals.arrays for name in PER_RECORD.reads_from(signals)):
        attacks.setdefault(PER_RECORD.label, PER_RECORD)
    fitted = {label: attack.fitted(signals, design, targets) for label, attack in attacks.items()}
    scores = {label: attack(signals, design, targets, bank.scratch) for label, attack in fitted.items()}
    return Attacked(bank, signals, design, targets, scores, fitted)


def converged_models(bank: Bank) -> tuple[Signals, Design]:
    """Signals and design of the models that converged."""
    return without_models(bank.signals(), bank.design(), bank.diverged)


def without_models(signals: Signals, design: Design, diverged: Collection[int]) -> tuple[Signals, Design]:
    """Signals and design of all models but those that diverged."""
    if not diverged:
        return signals, design
    rows = np.array(sorted(diverged), dtype=np.int64)
    return signals.take(np.setdiff1d(np.arange(design.n_models), rows)), design.converged(rows)
