"""How sure a figure is: the attack is repeated without groups of models, on all records or a sample of them.

The variance of a figure has two parts (`leakscope.stats.two_way`): what all records share, and what is
independent from record to record. The second shrinks with the number of records by a known factor, so a
sample of records is enough, and an audit of a million records waits as long as one of ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import design_reveals_targets
from leakscope.disk.scratch import gather_records
from leakscope.stats.parts import (
    advantage_calls,
    advantage_parts,
    auc_parts,
    halves,
    ranked,
    rate_parts,
    tpr_parts,
    tpr_slope,
)
from leakscope.stats.thresholds import thresholds_of_others
from leakscope.stats.two_way import Variance, two_way_variance
from leakscope.types import Design, Signals

_SAMPLED_SCORES = 640_000  # models times records
_MOST_GROUPS = 16
FEWEST_PER_SIDE = 10
"""Members, and non-members, of a group of records for a target to count."""
FEWEST_MODELS = 4
"""With fewer, groups of models that are left out say nothing about the spread."""

Parts = Callable[[FloatArray, BoolArray], FloatArray]
"""Values (targets, records) and members (targets, records) -> parts (figures, records)."""


@dataclass(frozen=True, eq=False)
class Replicate:
    """Scores, or other values per target and record, with all models or without some.

    Attributes:
        values: float64 (targets, records).
        in_mask: bool (targets, records).
    """

    values: FloatArray
    in_mask: BoolArray


@dataclass(frozen=True, eq=False)
class Replicates:
    """The same values with all models, and without each group of them.

    Attributes:
        whole: with all models.
        without: one per group; empty where there are too few models.
        n_in_left_out: float64 (groups, records), models of each group trained with the record; None where the
            design draws memberships independently.
        uses_references: whether values of a target depend on other models.
    """

    whole: Replicate
    without: tuple[Replicate, ...]
    n_in_left_out: FloatArray | None
    uses_references: bool

    def of_records(self, columns: IntArray) -> Replicates:
        """Of some of the records, and of the targets with enough members and non-members among them."""

        def some(replicate: Replicate) -> Replicate:
            in_mask = replicate.in_mask[:, columns]
            n_members = in_mask.sum(axis=1)
            counts = np.minimum(n_members, len(columns) - n_members) >= FEWEST_PER_SIDE
            return Replicate(replicate.values[counts][:, columns], in_mask[counts])

        counts = None if self.n_in_left_out is None else self.n_in_left_out[:, columns]
        return Replicates(some(self.whole), tuple(map(some, self.without)), counts, self.uses_references)

    def variances(self, parts_of: Parts, n_records: int) -> list[Variance]:
        """The variance of each figure; without replicates, over records alone.

        Args:
            parts_of: what the figures are.
            n_records: number of records they are about, of which these are a sample.
        """
        parts = parts_of(self.whole.values, self.whole.in_mask)
        without = [parts_of(replicate.values, replicate.in_mask) for replicate in self.without]
        return [
            two_way_variance(
                own,
                np.stack([w[at] for w in without]) if without else None,
                self.n_in_left_out,
                n_records,
                self.uses_references,
            )
            for at, own in enumerate(parts)
        ]


@dataclass(frozen=True, eq=False)
class Sample:
    """The models, and the records on which attacks are repeated.

    Attributes:
        signals: of these records.
        design: of these records.
        targets: int64 (targets,), the models attacked.
        records: int64 (records,), which ones.
        n_records: number of records of the audit.
    """

    signals: Signals
    design: Design
    targets: IntArray
    records: IntArray
    n_records: int

    @classmethod
    def of(cls, signals: Signals, design: Design, targets: IntArray) -> Sample:
        """All records, or as many drawn at random that all models together have 640,000 outputs."""
        n_records, n_drawn = design.n_records, _SAMPLED_SCORES // design.n_models
        if n_records <= n_drawn:
            return cls(signals, design, targets, np.arange(n_records), n_records)
        drawn = np.sort(np.random.default_rng(0).choice(n_records, n_drawn, replace=False))
        arrays = {name: gather_records(array, drawn, 2) for name, array in signals.arrays.items()}
        labels = signals.labels[..., drawn]
        sampled = Design(gather_records(design.in_mask, drawn, 1), None, design.models)
        return cls(Signals(arrays, signals.epochs, labels), sampled, targets, drawn, n_records)

    def replicates(self, attack: Attack) -> Replicates:
        """The scores of an attack."""
        needed = Signals(
            {name: self.signals.arrays[name] for name in attack.needs},
            self.signals.epochs,
            self.signals.labels,
        )
        repeated = attack.for_replicates(needed, self.design)
        scores = repeated(needed, self.design, self.targets).values
        if attack.references == "none":
            return self.replicates_of(scores)

        def without(others: IntArray, targets: IntArray) -> FloatArray:
            return repeated(needed.take(others), self.design.take(others), targets).values

        return self._replicates(scores, without)

    def replicates_of(self, values: FloatArray) -> Replicates:
        """Values of each target that do not depend on other models; (targets, records)."""
        return self._replicates(values, None)

    def _replicates(
        self, values: FloatArray, without: Callable[[IntArray, IntArray], FloatArray] | None
    ) -> Replicates:
        in_mask, models = self.design.rows(self.targets), np.arange(self.design.n_models)
        whole = Replicate(np.asarray(values), in_mask)
        groups = self._groups()
        replicates = []
        for group in groups:
            others = np.setdiff1d(models, group)
            is_left = np.isin(self.targets, others)
            if without is None:
                left = values[is_left]
            else:
                left = without(others, np.searchsorted(others, self.targets[is_left]))
            replicates.append(Replicate(left, in_mask[is_left]))
        counts = None
        if groups and design_reveals_targets(self.design, self.targets):
            counts = np.stack([self.design.in_mask[group].sum(axis=0) for group in groups]).astype(np.float64)
        return Replicates(whole, tuple(replicates), counts, without is not None)

    def _groups(self) -> list[IntArray]:
        """Groups of models of nearly equal size, at most 16; none where targets or models are too few."""
        if len(self.targets) < FEWEST_MODELS:
            return []
        return np.array_split(np.arange(self.design.n_models), min(self.design.n_models, _MOST_GROUPS))


def curve_parts(fpr_budgets: Sequence[float]) -> Parts:
    """Parts of the AUC, of the advantage and of the TPR at each FPR."""

    def parts(scores: FloatArray, in_mask: BoolArray) -> FloatArray:
        if not scores.size:
            return np.full((2 + len(fpr_budgets), scores.shape[1]), np.nan)
        ranks, calls = ranked(scores, in_mask), advantage_calls(scores, in_mask)
        rates = [tpr_parts(ranks, budget) for budget in fpr_budgets]
        return np.stack([auc_parts(ranks), advantage_parts(calls, in_mask), *rates])

    return parts


def calibrated_parts(fpr_budgets: Sequence[float]) -> Parts:
    """Parts of TPR and FPR, budget by budget, at thresholds that come from the other targets."""

    def parts(scores: FloatArray, in_mask: BoolArray) -> FloatArray:
        nonmembers = [np.sort(row[~members]) for row, members in zip(scores, in_mask, strict=True)]
        thresholds = thresholds_of_others(nonmembers, fpr_budgets)  # (targets, budgets)
        ranks = ranked(scores, in_mask)
        rows = []
        for at, budget in enumerate(fpr_budgets):
            calls = (scores >= thresholds[:, at : at + 1]).astype(np.float64)
            of_nonmembers = rate_parts(calls, ~in_mask)
            # The non-members of all targets set the thresholds, and move them up where they are many.
            moved = of_nonmembers - of_nonmembers.mean()
            rows += [rate_parts(calls, in_mask) - tpr_slope(ranks, budget) * moved, of_nonmembers]
        return np.stack(rows)

    return parts


def half_auc_parts(scores: FloatArray, in_mask: BoolArray) -> FloatArray:
    """Parts of the AUC within each half of the records, 0 outside of it; (2, records)."""
    fold = halves(scores.shape[1])
    parts = np.zeros((2, scores.shape[1]))
    for half in (0, 1):
        own = fold == half
        parts[half, own] = auc_parts(ranked(scores[:, own], in_mask[:, own]))
    return parts


def accuracy_parts(correct: FloatArray, in_mask: BoolArray) -> FloatArray:
    """Parts of the accuracy on members and on non-members; (2, records)."""
    return np.stack([rate_parts(correct, in_mask), rate_parts(correct, ~in_mask)])
