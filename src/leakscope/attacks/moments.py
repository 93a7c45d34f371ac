"""What the other models say about a record, leaving the target out, in O(models x records) for all targets.

Means and variances of each side (models that saw the record, models that did not) come from sums over
all models minus the target's own term. Everything is done in blocks of records: a first walk pools what
all records together say, target by target; a second has each record's own moments beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks
from leakscope.types import Design

Answers = Callable[[slice], FloatArray]
"""A block of records -> what the models answer, float64 (models, block)."""


def in_float64(values: AnyArray) -> Answers:
    """Answers as they are; `values` is (models, columns)."""
    return lambda columns: values[:, columns].astype(np.float64)


class Side(NamedTuple):
    """Moments of one side (IN or OUT), leaving the target out; (targets, columns) each."""

    n: FloatArray
    mean: FloatArray  # NaN without a model
    variance: FloatArray  # divides by n, as LiRA's paper does; NaN without a model


class PooledSide(NamedTuple):
    """One side of all records, weighed by their models; (targets, 1) each, NaN where no record has any."""

    variance: FloatArray  # around the records' means, of those with two models
    mean: FloatArray
    variance_of_means: FloatArray


class Pooled(NamedTuple):
    """Both sides of all records, and the mean gap IN - OUT of those with both; (targets, 1), 0 without."""

    seen: PooledSide
    unseen: PooledSide
    gap: FloatArray


def left_out_moments(values: FloatArray, mask: BoolArray, targets: IntArray) -> Side:
    """Count, mean and variance over the masked models other than each target.

    Values are centred by column first, so sums of squares lose no digits.
    """
    centre = values.mean(axis=0)
    centred = np.where(mask, values - centre, 0.0)
    own = mask[targets]
    n = mask.sum(axis=0) - own
    total = centred.sum(axis=0) - centred[targets]
    squares = (centred**2).sum(axis=0) - centred[targets] ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0.0)
    return Side(n.astype(float), mean + centre, variance)


def pooled(answers: Answers, design: Design, targets: IntArray, *mapped: AnyArray) -> Pooled:
    """What all records together say about each target's references.

    Args:
        answers: of the models.
        design: who was in which training set.
        targets: models to leave out, one at a time.
        mapped: memory maps behind the answers.
    """

    def totals(columns: slice) -> FloatArray:
        values, in_mask = answers(columns), design.in_mask[:, columns]
        seen, unseen = (left_out_moments(values, mask, targets) for mask in (in_mask, ~in_mask))
        both = (seen.n > 0) & (unseen.n > 0)
        gap = np.where(both, seen.mean - unseen.mean, 0.0)
        return np.stack([*_totals(seen), *_totals(unseen), gap.sum(axis=1), both.sum(axis=1)])

    found = np.sum(over_blocks(design.n_records, totals, *mapped, design.in_mask), axis=0)  # (12, targets)
    seen, unseen, (gap, n_both) = found[:5], found[5:10], found[10:]
    return Pooled(_pooled_side(seen), _pooled_side(unseen), (gap / np.maximum(n_both, 1))[:, None])


def both_sides(
    values: FloatArray, in_mask: BoolArray, targets: IntArray, gap: FloatArray
) -> tuple[Side, Side]:
    """(IN, OUT) moments of a block with a mean for every record.

    Without a model on one side that side's mean is the other side's plus the usual gap between the
    two (`Pooled.gap`). All comes from one target's own moments, which leave its membership out.
    """
    seen = left_out_moments(values, in_mask, targets)
    unseen = left_out_moments(values, ~in_mask, targets)
    return (
        seen._replace(mean=np.where(seen.n > 0, seen.mean, unseen.mean + gap)),
        unseen._replace(mean=np.where(unseen.n > 0, unseen.mean, seen.mean - gap)),
    )


def _totals(side: Side) -> list[FloatArray]:
    """Sums over a block's records: n s^2 and n where two models give an s^2, n, n m and n m^2; (targets,)."""
    several, mean = side.n > 1, np.where(side.n > 0, side.mean, 0.0)
    return [
        np.where(several, side.n * side.variance, 0.0).sum(axis=1),
        np.where(several, side.n, 0.0).sum(axis=1),
        side.n.sum(axis=1),
        (side.n * mean).sum(axis=1),
        (side.n * mean**2).sum(axis=1),
    ]


def _pooled_side(totals: FloatArray) -> PooledSide:
    scatter, n_several, n, total, squares = totals[:, :, None]  # (targets, 1) each
    with np.errstate(invalid="ignore"):
        mean = total / n
        return PooledSide(scatter / n_several, mean, np.maximum(squares / n - mean**2, 0.0))
