"""Differences of two figures with intervals: over models, over records, or from two intervals.

All are "other minus baseline":

- `jackknife_difference`: of figures of two populations. Models are left out as targets and as references,
  because targets that share references scatter less than their mean does. Populations with the same design
  leave out the same models, so what these have in common cancels.
- `auc_difference`: of two models' AUCs on the same records, after DeLong et al. (1988).
- `tpr_difference`: of two models' TPRs on the same records, each at the threshold of its own non-members.
- `rate_difference`: of two rates at given thresholds (Newcombe 1998, square-and-add).
- `advantage_difference`: of two advantages, whose thresholds are chosen on the same scores.
- `recovered_difference`: of two figures of which only the intervals are known (Zou and Donner 2008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.stats.intervals import (
    Interval,
    advantage_interval,
    check_level,
    clopper_pearson,
    is_mostly_one_value,
)
from leakscope.stats.parts import ranked, tpr_parts, tpr_slope

OVER_MODELS = "groups of models"
"""In the method of an interval for other models of the same records; other intervals are over records."""


class Difference(NamedTuple):
    """Other minus baseline, with its interval; NaN where undefined, with the reason in the method."""

    value: float
    interval: Interval


class Replicated(NamedTuple):
    """Figures of one population, and the same with groups of models left out.

    Attributes:
        figures: float64 (figures,).
        replicates: float64 (groups, figures), group g left out.
    """

    figures: FloatArray
    replicates: FloatArray

    @property
    def variance(self) -> FloatArray:
        """Delete-a-group jackknife variance of each figure; float64 (figures,)."""
        n_groups = len(self.replicates)
        variance: FloatArray = (n_groups - 1) * self.replicates.var(axis=0)
        return variance


def jackknife_difference(
    baseline: Replicated, other: Replicated, is_paired: bool, level: float = 0.95
) -> tuple[Difference, ...]:
    """Differences of every figure with t intervals over groups of models.

    Args:
        baseline: one population.
        other: another, the same figures in the same order.
        is_paired: whether both have the same design and leave out the same models, group by group; if not,
            the populations are independent, with Welch's degrees of freedom.
        level: two-sided confidence.
    """
    check_level(level)
    if is_paired and baseline.replicates.shape != other.replicates.shape:
        raise InputError(
            f"pairs need the same groups, got {baseline.replicates.shape} and {other.replicates.shape}"
        )
    values = other.figures - baseline.figures
    n_groups = len(baseline.replicates), len(other.replicates)
    if min(n_groups) < 2:
        nothing = Interval(float("nan"), float("nan"), level, f"undefined: fewer than 2 {OVER_MODELS}")
        return tuple(Difference(float(value), nothing) for value in values)
    if is_paired:
        variance = Replicated(values, other.replicates - baseline.replicates).variance
        degrees = np.full(len(values), n_groups[0] - 1.0)
    else:
        parts = baseline.variance, other.variance
        variance = parts[0] + parts[1]
        degrees = welch_degrees(parts, n_groups)
    half_widths = scipy.special.stdtrit(degrees, (1 + level) / 2) * np.sqrt(variance)
    how = "the same models left out in both" if is_paired else "populations independent"
    method = f"t, jackknife over {OVER_MODELS}, {how}"
    return tuple(_around(v, h, level, method) for v, h in zip(values, half_widths, strict=True))


def welch_degrees(variances: tuple[FloatArray, FloatArray], n: tuple[int, int]) -> FloatArray:
    """Welch and Satterthwaite's degrees of freedom of a sum of two variances; the least where both are 0."""
    a, b = variances
    spread = a**2 / (n[0] - 1) + b**2 / (n[1] - 1)
    least = np.full(np.shape(a), min(n) - 1.0)
    degrees: FloatArray = np.divide((a + b) ** 2, spread, out=least, where=spread > 0)
    return degrees


def auc_difference(
    baseline: FloatArray,
    other: FloatArray,
    baseline_members: BoolArray,
    other_members: BoolArray,
    level: float = 0.95,
) -> Difference:
    """Difference of two models' AUCs on the same records, in the same order.

    DeLong's variance of paired curves, stratified by membership in the two models. With the same members it
    is DeLong's own; with different members, records are still paired.

    Args:
        baseline: float (records,), higher means member.
        other: the same of the other model.
        baseline_members: bool (records,).
        other_members: bool (records,).
        level: two-sided confidence.
    """
    check_level(level)
    first, first_auc = _contributions(baseline, baseline_members)
    second, second_auc = _contributions(other, other_members)
    apart = second - first
    stratum = 2 * baseline_members.astype(np.int64) + other_members
    largest = _largest_part(baseline_members) + _largest_part(other_members)
    variance = 0.0
    for kind in np.unique(stratum):
        own = apart[stratum == kind]
        if len(own) < 2:  # nothing estimates its variance; no variance of such a part is larger
            variance += float(largest[stratum == kind].sum()) ** 2 / 4
            continue
        variance += len(own) * float(own.var(ddof=1))
        if is_mostly_one_value(own):  # placements that differ may be missing by chance
            variance += 2 / (len(own) + 2) ** 2
    half_width = -scipy.special.ndtri((1 - level) / 2) * np.sqrt(variance)
    return _around(second_auc - first_auc, half_width, level, "DeLong, paired by record")


def _largest_part(is_member: BoolArray) -> FloatArray:
    """The largest part that each record can have in an AUC."""
    return np.asarray(1 / np.where(is_member, is_member.sum(), (~is_member).sum()))


def tpr_difference(
    baseline: FloatArray,
    other: FloatArray,
    baseline_members: BoolArray,
    other_members: BoolArray,
    fpr: float,
    level: float = 0.95,
) -> Difference:
    """Difference of two models' TPRs at an FPR on the same records; arguments as in `auc_difference`.

    Each model's non-members set its threshold, so the parts of all records in both TPRs are compared
    (`leakscope.stats.parts`). Few non-members reach a low FPR, so Student's t has as many degrees of freedom
    as do. TPRs near 0 or 1 hardly vary from record to record by chance; their interval is at least that of
    two rates at given thresholds.
    """
    check_level(level)
    first, second = (
        _tpr_parts(scores, members, fpr)
        for scores, members in ((baseline, baseline_members), (other, other_members))
    )
    apart, value = second - first, float(second.sum() - first.sum())
    n_at_threshold = fpr * min(int((~members).sum()) for members in (baseline_members, other_members))
    quantile = float(scipy.special.stdtrit(max(n_at_threshold, 1.0), (1 + level) / 2))
    half_width = quantile * float(np.sqrt(len(apart) * apart.var(ddof=1)))
    hits, other_hits = (
        (round(float(np.clip(parts.sum(), 0, 1)) * n), n)
        for parts, n in ((first, int(baseline_members.sum())), (second, int(other_members.sum())))
    )
    _, fixed = rate_difference(hits, other_hits, level)
    low, high = min(value - half_width, fixed.low), max(value + half_width, fixed.high)
    return Difference(value, Interval(low, high, level, "parts of records, Student's t"))


def _tpr_parts(scores: FloatArray, is_member: BoolArray, fpr: float) -> FloatArray:
    """Parts of one model's records in its TPR; float64 (records,)."""
    ranks = ranked(np.asarray(scores, dtype=np.float64)[None], is_member[None])
    return tpr_parts(ranks, fpr, tpr_slope(ranks, fpr))


def rate_difference(baseline: tuple[int, int], other: tuple[int, int], level: float = 0.95) -> Difference:
    """Difference of two rates, each (successes, trials), as if from different records.

    Outputs on the same records are correlated, so the interval is conservative.
    """
    ends = [clopper_pearson(*counts, level) for counts in (baseline, other)]
    rates = [k / n if n else float("nan") for k, n in (baseline, other)]
    return _square_and_add(rates, ends, level)


def advantage_difference(
    advantages: tuple[float, float],
    n_baseline: tuple[int, int],
    n_other: tuple[int, int],
    level: float = 0.95,
) -> Difference:
    """Difference of two advantages; wide, but valid under any dependence.

    Args:
        advantages: of the baseline and of the other.
        n_baseline: members and non-members.
        n_other: the same.
        level: two-sided confidence; each advantage gets half of the error.
    """
    each = 1 - (1 - level) / 2
    first = advantage_interval(advantages[0], *n_baseline, each)
    second = advantage_interval(advantages[1], *n_other, each)
    interval = Interval(
        second.low - first.high, second.high - first.low, level, "Dvoretzky-Kiefer-Wolfowitz, Bonferroni"
    )
    return Difference(advantages[1] - advantages[0], interval)


def recovered_difference(
    values: tuple[float, float], intervals: tuple[Interval, Interval], level: float = 0.95
) -> Difference:
    """Difference of two figures from their intervals, square-and-add; conservative where they are correlated.

    For another level than that of the figures, intervals are widened like normal ones.
    """
    check_level(level)
    own = intervals[0].level
    widening = scipy.special.ndtri((1 + level) / 2) / scipy.special.ndtri((1 + own) / 2)
    ends = [
        Interval(v - widening * (v - i.low), v + widening * (i.high - v), level, "")
        for v, i in zip(values, intervals, strict=True)
    ]
    return _square_and_add(list(values), ends, level)


def record_change_p_values(baseline: IntArray, other: IntArray) -> FloatArray:
    """Two-sided p-values of "this record's advantage TPR - FPR is the same in both runs".

    A difference of differences of four independent rates, a success and a failure added to each (Agresti
    and Caffo 2000), normal; NaN where a rate has no trials.

    Args:
        baseline: int (4, records): hits, IN targets, false alarms, OUT targets.
        other: the same.
    """
    total, variance = np.zeros(baseline.shape[1]), np.zeros(baseline.shape[1])
    is_defined = np.ones(baseline.shape[1], dtype=bool)
    for counts, sign in ((other, 1.0), (baseline, -1.0)):
        for successes, trials, side in ((counts[0], counts[1], 1.0), (counts[2], counts[3], -1.0)):
            rate = (successes + 1) / (trials + 2)
            total += sign * side * rate
            variance += rate * (1 - rate) / (trials + 2)
            is_defined &= trials > 0
    p_values: FloatArray = np.where(
        is_defined, 2 * scipy.special.ndtr(-np.abs(total) / np.sqrt(variance)), np.nan
    )
    return p_values


def _contributions(scores: FloatArray, is_member: BoolArray) -> tuple[FloatArray, float]:
    """Each record's part in the AUC (its placement among the other side), and the AUC."""
    values = np.asarray(scores, dtype=np.float64)
    parts = np.empty(len(values))
    for mask, sign in ((is_member, 1.0), (~is_member, -1.0)):
        own, rivals = values[mask], np.sort(values[~mask])
        if not len(own) or not len(rivals):
            raise InputError("an AUC needs members and non-members; one side is empty")
        below = np.searchsorted(rivals, own, side="left") + np.searchsorted(rivals, own, side="right")
        placement = below / (2 * len(rivals))
        parts[mask] = sign * placement / len(own)
    return parts, float(parts[is_member].sum())


def _square_and_add(rates: list[float], ends: list[Interval], level: float) -> Difference:
    first, second = rates
    below = np.hypot(second - ends[1].low, ends[0].high - first)
    above = np.hypot(ends[1].high - second, first - ends[0].low)
    value = second - first
    return Difference(value, Interval(float(value - below), float(value + above), level, "square-and-add"))


def _around(value: float, half_width: float, level: float, method: str) -> Difference:
    return Difference(
        float(value), Interval(float(value - half_width), float(value + half_width), level, method)
    )
