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
    variance: FloatArray  # biased, as in the paper; NaN below one model


@dataclass(frozen=True)
class Lira(Attack):
    """Online LiRA on log-odds.

    Attributes:
        variance: "fixed": one variance a side for all records, "record": each record's own.
    """

    variance: Literal["fixed", "record"] = "fixed"

    name = "lira"
    needs = ("log_odds",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """log N(s; in) - log N(s; out); float64 (targets, columns)."""
        log_odds = np.asarray(signals.last("log_odds"), dtype=np.float64)
        seen = left_out_moments(log_odds, design.in_mask, targets)
        unseen = left_out_moments(log_odds, ~design.in_mask, targets)
        seen, unseen = _completed(seen, unseen), _completed(unseen, seen)
        s = log_odds[targets]
        return self._log_density(s, seen) - self._log_density(s, unseen)

    def _log_density(self, s: FloatArray, side: Side) -> FloatArray:
        variance = side.variance
        if self.variance == "fixed":
            weight = np.where(side.n > 1, side.n, 0.0)
            pooled = (weight * np.nan_to_num(variance)).sum(axis=1, keepdims=True)
            variance = pooled / np.maximum(weight.sum(axis=1, keepdims=True), 1)
        variance = np.maximum(np.where(np.isnan(variance), 1.0, variance), _SMALLEST_VARIANCE)
        return -0.5 * ((s - side.mean) ** 2 / variance + np.log(variance))


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


def _completed(side: Side, other: Side) -> Side:
    """Where a side has no model at all, its mean is the other side's plus the usual gap."""
    gap = np.nanmean(np.where(other.n > 0, side.mean - other.mean, np.nan)) if (side.n > 0).any() else 0.0
    mean = np.where(side.n > 0, side.mean, other.mean + gap)
    return side._replace(mean=mean)
