"""The scores of an attack on a set of records, as pairs of a target and a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import evict_pages
from leakscope.evaluate.uncertainty import Replicate, Replicates
from leakscope.stats.estimate import why_few_records
from leakscope.stats.parts import halves


@dataclass(frozen=True, eq=False)
class RecordSet:
    """A set of records, for each target.

    Attributes:
        chosen: int64 (targets, records), indices; None where the set is unknown.
        reason: why it is unknown; None where it is known.
    """

    chosen: IntArray | None
    reason: str | None = None

    @property
    def n_records(self) -> int:
        """Number of records per target; 0 where they are unknown."""
        return 0 if self.chosen is None else int(self.chosen.shape[1])

    @property
    def why_not(self) -> str | None:
        """Why nothing is measured on the set; None where it is."""
        return why_few_records(self.n_records) if self.reason is None else self.reason


class Pairs(NamedTuple):
    """Pairs of a target and a record; all arrays are (pairs,).

    Attributes:
        scores: higher means member.
        is_member: whether the record is a member of the target's training set.
        record: number of the pair's record in its set.
        model_half: the half of the models that the pair's target is in.
    """

    scores: FloatArray
    is_member: BoolArray
    record: IntArray
    model_half: IntArray

    def where(self, own: BoolArray) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.scores[own], self.is_member[own], self.record[own], self.model_half[own])


@dataclass(frozen=True, eq=False)
class SetScores:
    """The scores of one attack on a set of records.

    Attributes:
        pairs: all of them.
        fold: int64 (records of the set,), the half that each record is in.
        whole: the pairs of sampled records.
        without: the same without each group of models; empty where there are too few models.
        n_in_left_out: as in `Replicates`.
        sampled: int64, numbers of the set's records that are in the sample.
        uses_references: whether scores depend on other models.
        several: whether there are several targets.
        n_models: number of models, targets and references.
        is_fixed: whether the set has the same records for every target.
    """

    pairs: Pairs
    fold: IntArray
    whole: Pairs
    without: tuple[Pairs, ...]
    n_in_left_out: FloatArray | None
    sampled: IntArray
    uses_references: bool
    several: bool
    n_models: int
    is_fixed: bool

    @classmethod
    def of(
        cls,
        chosen: IntArray,
        scores: FloatArray,
        in_mask: BoolArray,
        replicates: Replicates,
        sample: IntArray,
    ) -> SetScores:
        """The scores on the records `chosen` for each target.

        Args:
            chosen: int64 (targets, chosen), indices of records.
            scores: float64 (targets, records).
            in_mask: bool (targets, records).
            replicates: the scores of a sample of records.
            sample: int64 (sampled records,), which records these are, ascending.
        """
        records, numbers = np.unique(chosen, return_inverse=True)
        numbers = numbers.reshape(chosen.shape)
        model_half = np.broadcast_to(replicates.model_half[:, None], chosen.shape)
        values, members = (_gathered(array, chosen) for array in (scores, in_mask))
        at = np.minimum(np.searchsorted(sample, chosen), len(sample) - 1)
        is_sampled = sample[at] == chosen

        def pairs_of(replicate: Replicate) -> Pairs:
            rows = replicate.rows
            own, columns = is_sampled[rows], at[rows]
            scores = np.take_along_axis(replicate.values, columns, 1)[own]
            is_member: BoolArray = np.take_along_axis(replicate.in_mask, columns, 1)[own]
            return Pairs(scores, is_member, numbers[rows][own], model_half[rows][own])

        sampled = np.unique(numbers[is_sampled])
        is_fixed = bool((chosen == chosen[0]).all())
        # Where the set differs between targets, the design exchanges no members within it.
        counts = replicates.n_in_left_out if is_fixed else None
        return cls(
            Pairs(values.reshape(-1), members.reshape(-1), numbers.reshape(-1), model_half.reshape(-1)),
            halves(len(records)),
            pairs_of(replicates.whole),
            tuple(map(pairs_of, replicates.without)),
            None if counts is None else counts[:, np.searchsorted(sample, records[sampled])],
            sampled,
            replicates.uses_references,
            len(chosen) > 1,
            replicates.n_models,
            is_fixed,
        )


def _gathered(array: AnyArray, chosen: IntArray) -> AnyArray:
    """The chosen records of each target; one target's row in memory at a time."""
    rows = []
    for row, own in zip(array, chosen, strict=True):
        rows.append(np.take(row, own))
        evict_pages(array)
    return np.stack(rows)
