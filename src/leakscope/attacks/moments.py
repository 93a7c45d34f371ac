"""What the other models say about a record, leaving the target out, in O(models x records) for all targets.

Means and variances of each side (models that saw the record, models that did not) come from sums over
all models minus the target's own term.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.types import BoolArray, FloatArray, IntArray


class Side(NamedTuple):
    """Moments of one side (IN or OUT), leaving the target out; (targets, columns) each."""

    n: FloatArray
    mean: FloatArray  # NaN without a model
    variance: FloatArray  # divides by n, as LiRA's paper does; NaN without a model


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


def both_sides(values: FloatArray, in_mask: BoolArray, targets: IntArray) -> tuple[Side, Side]:
    """(IN, OUT) moments with a mean for every record.

    Without a model on one side that side's mean is the other side's plus the usual gap between the
    two. All comes from one target's own moments, which leave its membership out.
    """
    seen = left_out_moments(values, in_mask, targets)
    unseen = left_out_moments(values, ~in_mask, targets)
    return _with_means(seen, unseen), _with_means(unseen, seen)


def row_mean(values: FloatArray, weight: FloatArray | BoolArray) -> FloatArray:
    """Weighted mean over each row's columns with a weight; (targets, 1), NaN where none has one."""
    total = np.where(weight > 0, values * weight, 0.0).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = total / weight.sum(axis=1, keepdims=True)
    return mean


def _with_means(side: Side, other: Side) -> Side:
    gap = row_mean(side.mean - other.mean, (side.n > 0) & (other.n > 0))
    return side._replace(mean=np.where(side.n > 0, side.mean, other.mean + np.nan_to_num(gap)))
