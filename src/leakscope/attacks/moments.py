"""Moments of a signal over the reference models of each target, in O(models x records) for all targets.

Means and variances of each side (models trained with the record, models trained without it) come from
sums over all models minus the terms of the target and of its partner. A first pass over the blocks of records
pools all records per target; a second has each record's own moments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.attacks.blocks import Block, Blocks


class Side(NamedTuple):
    """Moments of one side (IN or OUT), leaving the target out; (targets, records) each."""

    n: FloatArray
    mean: FloatArray  # NaN without a model
    variance: FloatArray  # divides by n, as LiRA's paper does; NaN without a model


class PooledSide(NamedTuple):
    """One side of all records, weighted by their models; (targets, 1) each, NaN where no record has any."""

    variance: FloatArray  # around the records' means, of those with two models
    mean: FloatArray
    variance_of_means: FloatArray
    total_variance: FloatArray  # of all values, around their common mean


class Pooled(NamedTuple):
    """Both sides of all records, and the mean gap IN - OUT, (targets, 1).

    The gap is that of the records with both sides. If no record has both, because there is a single
    reference, it is the difference of the sides' means over all records; 0 where a side has no value at all.
    """

    seen: PooledSide
    unseen: PooledSide
    gap: FloatArray


def left_out_moments(
    values: FloatArray, mask: BoolArray, targets: IntArray, partners: IntArray | None = None
) -> Side:
    """Count, mean and variance over the masked models other than each target and its partner.

    Values are centered by column first, so sums of squares lose no digits.
    """
    centre = values.mean(axis=0)
    centred = np.where(mask, values - centre, 0.0)
    n = mask.sum(axis=0) - mask[targets]
    total = centred.sum(axis=0) - centred[targets]
    squares = (centred**2).sum(axis=0) - centred[targets] ** 2
    if partners is not None:
        of_partners = np.where(partners >= 0, np.take_along_axis(centred, partners, axis=0), 0.0)
        n = n - (np.take_along_axis(mask, partners, axis=0) & (partners >= 0))
        total, squares = total - of_partners, squares - of_partners**2
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0.0)
    return Side(n.astype(float), mean + centre, variance)


def pooled(blocks: Blocks, values_of: Callable[[Block], FloatArray]) -> Pooled:
    """Moments of `values_of` (models, records) over all blocks, for the references of each target."""
    return pooled_each(blocks, [values_of])[0]


def pooled_each(blocks: Blocks, several: Sequence[Callable[[Block], FloatArray]]) -> list[Pooled]:
    """Those of several functions, in one pass over the blocks."""

    def totals(block: Block) -> FloatArray:
        return np.stack([_sums(values_of(block), block) for values_of in several])

    return [_pooled(sums) for sums in np.sum(blocks.map(totals), axis=0)]


def _sums(values: FloatArray, block: Block) -> FloatArray:
    """Sums over a block's records; (12, targets)."""
    masks = (block.in_mask, ~block.in_mask)
    seen, unseen = (left_out_moments(values, mask, block.targets) for mask in masks)
    both = (seen.n > 0) & (unseen.n > 0)
    gap = np.where(both, seen.mean - unseen.mean, 0.0)
    return np.stack([*_totals(seen), *_totals(unseen), gap.sum(axis=1), both.sum(axis=1)])


def _pooled(sums: FloatArray) -> Pooled:
    seen, unseen = _pooled_side(sums[:5]), _pooled_side(sums[5:10])
    gap, n_both = sums[10:, :, None]
    across = np.nan_to_num(seen.mean - unseen.mean)
    return Pooled(seen, unseen, np.where(n_both > 0, gap / np.maximum(n_both, 1), across))


def both_sides(values: FloatArray, block: Block, gap: FloatArray) -> tuple[Side, Side]:
    """(IN, OUT) moments of a block with a mean for every record; `values` are float64 (models, records).

    Where a side has no model, its mean is the other side's plus or minus the mean gap between the two
    (`Pooled.gap`). All figures are moments that leave the target out, and with it the target's membership.
    """
    seen = left_out_moments(values, block.in_mask, block.targets, block.partners)
    unseen = left_out_moments(values, ~block.in_mask, block.targets, block.partners)
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
        variance_of_means = np.maximum(squares / n - mean**2, 0.0)
        return PooledSide(scatter / n_several, mean, variance_of_means, scatter / n + variance_of_means)
