"""How sure a figure is: the attack is repeated without groups of models, on all records or a sample of them.

The variance of a figure has two parts (`leakscope.stats.two_way`): what all records share, and what is
independent from record to record. The second shrinks with the number of records by a known factor, so a
sample of records is enough, and an audit of a million records waits as long as one of ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import complements, design_reveals_targets
from leakscope.design import on_records, unit_sums
from leakscope.disk.scratch import gather_records, on_threads
from leakscope.stats.parts import auc_parts, halves, ranked, rate_parts
from leakscope.stats.two_way import NoLeakage, Variance, two_way_variance
from leakscope.types import Design, Signals

SAMPLED_SCORES = 640_000
"""Models times records on which attacks are repeated, at most."""
_MOST_GROUPS = 16
FEWEST_PER_SIDE = 10
"""Members, and non-members, of a group of records for a target to count."""
FEWEST_MODELS = 4
"""With fewer, groups of models that are left out say nothing about the spread."""

Parts = Callable[[FloatArray, BoolArray], FloatArray]
"""Values (targets, records) and members (targets, records) -> parts (figures, records)."""
PartsOfMeans = Callable[[FloatArray, BoolArray, FloatArray], FloatArray]
"""The same for several means over targets, with weights (means, targets) -> parts (figures, means, records).
"""
_STACKED_SCORES = 1 << 15
"""Scores of a replicate up to which all of them are processed at once: calls of numpy would take longer."""


@dataclass(frozen=True, eq=False)
class Replicate:
    """Scores, or other values per target and record, with all models or without some.

    Attributes:
        values: float64 (targets, records).
        in_mask: bool (targets, records).
        rows: int64 (targets,), which of all targets these are.
    """

    values: FloatArray
    in_mask: BoolArray
    rows: IntArray


class LeftOut(NamedTuple):
    """How models were left out.

    Attributes:
        n_in: float64 (groups, records), models of each group trained with the record; None where the design
            draws memberships independently.
        n_models: number of models, targets or not.
    """

    n_in: FloatArray | None
    n_models: int


@dataclass(frozen=True, eq=False)
class Replicates:
    """The same values with all models, and without each group of them.

    Attributes:
        whole: with all models.
        without: one per group; empty where there are too few models.
        n_in_left_out: float64 (groups, records), models of each group trained with the record; None where the
            design draws memberships independently.
        n_models: number of models, targets or not.
        uses_references: whether values of a target depend on other models.
    """

    whole: Replicate
    without: tuple[Replicate, ...]
    n_in_left_out: FloatArray | None
    n_models: int
    uses_references: bool

    @property
    def left_out(self) -> LeftOut:
        """How models were left out, which is the same for all attacks."""
        return LeftOut(self.n_in_left_out, self.n_models)

    @property
    def model_half(self) -> IntArray:
        """The half of the models that each target is in, 0 or 1; 0 for all where models are too few.

        Every other group of those that are left out: models of a group may depend on each other.
        """
        half = np.zeros(len(self.whole.rows), dtype=np.int64)
        for without in self.without[1::2]:
            half[~np.isin(self.whole.rows, without.rows)] = 1
        return half

    def of_records(self, columns: IntArray) -> Replicates:
        """Of some of the records, and of the targets with enough members and non-members among them."""

        def some(replicate: Replicate) -> Replicate:
            in_mask = replicate.in_mask[:, columns]
            n_members = in_mask.sum(axis=1)
            counts = np.minimum(n_members, len(columns) - n_members) >= FEWEST_PER_SIDE
            values = replicate.values if counts.all() else replicate.values[counts]
            return Replicate(values[:, columns], in_mask[counts], replicate.rows[counts])

        return self._with(some, columns)

    def of_population(self, columns: IntArray) -> Replicates:
        """Of some of the records, and of all targets."""
        if len(columns) == self.whole.values.shape[1]:
            return self
        return self._with(
            lambda one: Replicate(one.values[:, columns], one.in_mask[:, columns], one.rows), columns
        )

    def negated(self) -> Replicates:
        """The same with values of the opposite sign."""

        def one(replicate: Replicate) -> Replicate:
            return replace(replicate, values=-replicate.values)

        return replace(self, whole=one(self.whole), without=tuple(map(one, self.without)))

    def _with(self, some: Callable[[Replicate], Replicate], columns: IntArray) -> Replicates:
        counts = None if self.n_in_left_out is None else self.n_in_left_out[:, columns]
        return replace(
            self, whole=some(self.whole), without=tuple(map(some, self.without)), n_in_left_out=counts
        )

    def variances(
        self, parts_of: Parts, n_records: int, no_leakage: Sequence[NoLeakage | None] | None = None
    ) -> list[Variance]:
        """The variance of each figure; without replicates, over records alone.

        Args:
            parts_of: what the figures are.
            n_records: number of records they are about, of which these are a sample.
            no_leakage: what each figure is where nothing leaks; None where they are no measures of leakage.
        """
        parts = self.of_each(lambda one: parts_of(one.values, one.in_mask))
        kinds = [(self.uses_references, none) for none in no_leakage or [None] * len(parts[0])]
        return self.variances_of(parts, n_records, kinds)

    def of_each(self, parts_of: Callable[[Replicate], FloatArray]) -> list[FloatArray]:
        """Parts (figures, records) with all models, then without each group of them."""
        return on_threads(parts_of, (self.whole, *self.without), self.whole.values.size)

    def of_all(self, parts_of: PartsOfMeans) -> list[FloatArray]:
        """The same as `of_each`, faster: replicates that share scores, or have few, are processed at once."""
        replicates, size = (self.whole, *self.without), self.whole.values.size
        if not self.uses_references:
            rows = [np.searchsorted(self.whole.rows, one.rows) for one in replicates]
            stacked = [self.whole]
        elif size <= _STACKED_SCORES:
            ends = np.cumsum([len(one.rows) for one in replicates])
            rows = [np.arange(end - len(one.rows), end) for one, end in zip(replicates, ends, strict=True)]
            stacked = list(replicates)
        else:
            return on_threads(
                lambda one: parts_of(one.values, one.in_mask, _means([np.arange(len(one.rows))]))[:, 0],
                replicates,
                size,
            )
        values, in_mask = (np.concatenate([getattr(one, name) for one in stacked])
                           for name in ("values", "in_mask"))  # fmt: skip
        return list(np.moveaxis(parts_of(values, in_mask, _means(rows, len(values))), 1, 0))

    def variances_of(
        self,
        parts: Sequence[FloatArray],
        n_records: int,
        kinds: Sequence[tuple[bool, NoLeakage | None]],
    ) -> list[Variance]:
        """The variance of each figure from its parts.

        Args:
            parts: of all models and without each group, see `of_each`.
            n_records: as in `variances`.
            kinds: whether a target's figure depends on other models, and what it is where nothing leaks.
        """
        whole, *without = parts
        return [
            two_way_variance(
                own,
                np.stack([w[at] for w in without]) if without else None,
                self.n_in_left_out,
                n_records,
                self.n_models,
                *kind,
            )
            for at, (own, kind) in enumerate(zip(whole, kinds, strict=True))
        ]


@dataclass(frozen=True, eq=False)
class Sample:
    """The models, and the records on which attacks are repeated.

    Attributes:
        signals: of these records.
        design: of these records.
        targets: int64 (targets,), the models attacked.
        units: int64 (units,), which records of the audit these are; which units, where these have several.
    """

    signals: Signals
    design: Design
    targets: IntArray
    units: IntArray

    @classmethod
    def of(
        cls,
        signals: Signals,
        design: Design,
        targets: IntArray,
        canaries: IntArray | None = None,
        sampled_scores: int = SAMPLED_SCORES,
    ) -> Sample:
        """All records, or as many drawn at random that all models together have `sampled_scores` outputs.

        Units are drawn with all of their records. Of `canaries`, int64 (canaries,), a third as many are drawn
        in addition: all, unless they are many.
        """
        n_units, n_drawn = design.of_units.n_records, sampled_scores // design.n_models
        if design.n_records <= n_drawn:
            return cls(signals, design, targets, np.arange(n_units))
        n_drawn = max(1, n_drawn * n_units // design.n_records)
        planted = np.empty(0, np.int64) if canaries is None else canaries
        rng, others = np.random.default_rng(0), np.setdiff1d(np.arange(n_units), planted)
        drawn = rng.choice(others, min(n_drawn, len(others)), replace=False)
        drawn_canaries = rng.choice(planted, min(n_drawn // 3, len(planted)), replace=False)
        drawn = np.sort(np.concatenate([drawn, drawn_canaries]))
        records = drawn if design.units is None else np.flatnonzero(np.isin(design.units, drawn))
        arrays = {name: gather_records(array, records, 2) for name, array in signals.arrays.items()}
        sampled = Signals(arrays, signals.epochs, signals.labels[..., records])
        return cls(sampled, on_records(design, records), targets, drawn)

    def replicates(self, attack: Attack) -> Replicates:
        """The scores of an attack."""
        needed = Signals(
            {name: self.signals.arrays[name] for name in attack.reads_from(self.signals)},
            self.signals.epochs,
            self.signals.labels,
        )
        repeated = attack.fitted(needed, self.design, self.targets)
        scores = repeated(needed, self.design, self.targets).values
        if attack.references == "none":
            return self.replicates_of(scores)

        def without(others: IntArray, targets: IntArray) -> FloatArray:
            return repeated(needed.take(others), self.design.take(others), targets).values

        return self._replicates(scores, without)

    def replicates_of(self, values: FloatArray) -> Replicates:
        """Values of each target that do not depend on other models; (targets, records), or of units."""
        return self._replicates(values, None)

    def _replicates(
        self, values: FloatArray, without: Callable[[IntArray, IntArray], FloatArray] | None
    ) -> Replicates:
        memberships, models = self.design.of_units, np.arange(self.design.n_models)
        in_mask = memberships.rows(self.targets)
        whole = Replicate(np.asarray(values), in_mask, np.arange(len(in_mask)))
        groups = self._groups()

        def replicate(group: IntArray) -> Replicate:
            others = np.setdiff1d(models, group)
            is_left = np.isin(self.targets, others)
            rows = np.flatnonzero(is_left)
            if without is None:
                return Replicate(values[rows], in_mask[rows], rows)
            left = without(others, np.searchsorted(others, self.targets[rows]))
            return Replicate(left, in_mask[rows], rows)

        replicates = tuple(on_threads(replicate, groups, self.design.in_mask.size))
        counts = None
        if groups and design_reveals_targets(self.design, self.targets):
            counts = np.stack([memberships.in_mask[group].sum(axis=0) for group in groups]).astype(np.float64)
        return Replicates(whole, replicates, counts, self.design.n_models, without is not None)

    def _groups(self) -> list[IntArray]:
        """Groups of models of nearly equal size, at most 16; none where targets or models are too few.

        Complementary models stay together: what one lacks the other has, so their outputs on a record depend
        on each other, and without one of them the other has no partner.
        """
        if len(self.targets) < FEWEST_MODELS:
            return []
        models = np.arange(self.design.n_models)
        partner = complements(self.design)
        first = np.flatnonzero((partner < 0) | (models < partner))
        if len(first) < FEWEST_MODELS:  # too few pairs
            first, partner = models, np.full(len(models), -1)
        groups = []
        for some in np.array_split(first, min(len(first), _MOST_GROUPS)):
            group = np.concatenate([some, partner[some]])
            groups.append(np.sort(group[(group >= 0) & (group < len(models))]))
        return groups


def _means(rows: Sequence[IntArray], n_rows: int | None = None) -> FloatArray:
    """The weights of rows in the mean of each set of them; NaN for a set without rows."""
    weights = np.zeros((len(rows), len(rows[0]) if n_rows is None else n_rows))
    for own, some in zip(weights, rows, strict=True):
        own[some] = 1 / max(len(some), 1)
        if not len(some):
            own[:] = np.nan
    return weights


def half_auc_parts(replicates: Replicates) -> list[FloatArray]:
    """Parts of the AUC within each half of the records, 0 outside of it; (2, records) of each replicate."""
    n_records = replicates.whole.values.shape[1]
    fold = halves(n_records)

    def parts_of(scores: FloatArray, in_mask: BoolArray, means: FloatArray) -> FloatArray:
        parts = np.zeros((2, len(means), n_records))
        for half in (0, 1):
            own = fold == half
            parts[half][:, own] = auc_parts(ranked(scores[:, own], in_mask[:, own]), means)
        return parts

    return replicates.of_all(parts_of)


def accuracy_parts(correct: FloatArray, in_mask: BoolArray, units: IntArray | None = None) -> FloatArray:
    """Parts of the accuracy on members and on non-members; (2, records), or (2, units).

    Args:
        correct: (targets, records).
        in_mask: bool (targets, records), or (targets, units).
        units: int64 (records,); None: every record is a unit.
    """
    members = in_mask if units is None else in_mask[:, units]
    parts = np.stack([rate_parts(correct, members), rate_parts(correct, ~members)])
    if units is None:
        return parts
    rates = parts.sum(axis=1, keepdims=True)
    deviations = parts - rates / parts.shape[1]  # a rate is a ratio: large units do not raise it
    of_units: FloatArray = np.stack([unit_sums(own, units) for own in deviations])
    return np.asarray(of_units + rates / in_mask.shape[1])
