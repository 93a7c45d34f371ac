"""LiRA: is the answer more likely if the record was in? (Carlini et al. 2022, algorithm 1)

For each record two Gaussians of its log-odds, over the other models that saw it and that did not.
Means are per record. Variances are pooled over all records ("fixed", the paper's choice below 64
models) or per record. Leave-one-out moments come from sums, so M targets cost O(M N), not O(M^2 N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.types import BoolArray, Design, FloatArray, IntArray, Signals

_SMALLEST_VARIANCE = 1e-12


class Side(NamedTuple):
    """Moments of one side (IN or OUT), leaving the target out; (targets, columns) each."""

    n: FloatArray
    mean: FloatArray
    variance: FloatArray  # biased, as in the paper; NaN without a model


@dataclass(frozen=True)
class Lira(Attack):
    """Online LiRA on log-odds.

    Attributes:
        variance: "fixed": one variance a side for all records; "record": each record's own, where
            both sides have at least two models.
    """

    variance: Literal["fixed", "record"] = "fixed"

    name = "lira"
    needs = ("log_odds",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """log N(s; in) - log N(s; out); float64 (targets, columns)."""
        log_odds = np.asarray(signals.last("log_odds"), dtype=np.float64)
        seen = left_out_moments(log_odds, design.in_mask, targets)
        unseen = left_out_moments(log_odds, ~design.in_mask, targets)
        seen, unseen = self._completed(seen, unseen), self._completed(unseen, seen)
        s = log_odds[targets]
        return _log_density(s, seen) - _log_density(s, unseen)

    def _completed(self, side: Side, other: Side) -> Side:
        """The side with a mean and a variance for every record.

        Without a model on this side the mean is the other side's plus the usual gap; with fewer than
        two on either side the variance is the pooled one, as a ratio of an own to a pooled variance
        would tell how many models are where. All come from the same target's moments, which leave
        its own membership out.
        """
        gap = _row_mean(side.mean - other.mean, (side.n > 0) & (other.n > 0))
        mean = np.where(side.n > 0, side.mean, other.mean + np.nan_to_num(gap))
        pooled = _row_mean(side.variance, side.n * (side.n > 1))
        pooled = np.where(np.isnan(pooled), _row_mean(other.variance, other.n * (other.n > 1)), pooled)
        pooled = np.where(np.isnan(pooled), 1.0, pooled)
        own = (side.n > 1) & (other.n > 1) & (self.variance == "record")
        return Side(side.n, mean, np.maximum(np.where(own, side.variance, pooled), _SMALLEST_VARIANCE))


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


def _log_density(s: FloatArray, side: Side) -> FloatArray:
    """log N(s; mean, variance), without the constant that cancels."""
    return -0.5 * ((s - side.mean) ** 2 / side.variance + np.log(side.variance))


def _row_mean(values: FloatArray, weight: FloatArray | BoolArray) -> FloatArray:
    """Weighted mean over each row's columns with a weight; (targets, 1), NaN where none has one."""
    total = np.where(weight > 0, values * weight, 0.0).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = total / weight.sum(axis=1, keepdims=True)
    return mean
