"""Each record's part in a figure: numbers that add up to the mean of the figure over targets.

The AUC, a TPR or the advantage is nearly a mean over records. Known record by record, it tells how much the
figure would vary with other records, other members or other reference models (`leakscope.stats.two_way`).

Two figures choose a threshold, and pay for it:

- The TPR at an FPR counts the members above the non-member of rank `FPR * (n + 1)`, interpolated between
  ranks. A threshold at the k-th of n non-members has an expected FPR of k / (n + 1), so a model that leaks
  nothing has a TPR of exactly the FPR on average. (The best threshold within the budget, as on a ROC curve,
  exceeds it.)
- The advantage is TPR - FPR on one half of the records at the threshold that is best on the other half, and
  the other way round. The largest TPR - FPR on the same records is above 0 even where nothing leaks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray

# Shares of records called members among which the threshold of the advantage is chosen.
_SHARES = np.arange(0.02, 0.99, 0.02)
# TPR - FPR as a function of the share called is smoothed by q (1 - q) times a parabola before its maximum is
# taken: where the curve is flat, noise would otherwise choose the threshold.
_BASIS = np.stack([_SHARES * (1 - _SHARES) * _SHARES**power for power in range(3)], axis=1)
_SMOOTHING = _BASIS @ np.linalg.pinv(_BASIS)


class Ranked(NamedTuple):
    """Scores of some targets, and for each how many records of either side reach it; (targets, records) each.

    Attributes:
        scores: higher means member.
        is_member: who is one.
        members_below: members with a lower score, ties count half.
        nonmembers_below: non-members with a lower score, ties count half.
        nonmembers_reaching: non-members with this score or a higher one.
    """

    scores: FloatArray
    is_member: BoolArray
    members_below: FloatArray
    nonmembers_below: FloatArray
    nonmembers_reaching: IntArray

    @property
    def n_members(self) -> IntArray:
        """Per target; (targets, 1)."""
        return np.asarray(self.is_member.sum(axis=1, keepdims=True))

    @property
    def n_nonmembers(self) -> IntArray:
        """Per target; (targets, 1)."""
        return np.asarray(self.is_member.shape[1] - self.n_members)


def ranked(scores: FloatArray, is_member: BoolArray) -> Ranked:
    """Ranks of scores, float64 (targets, records)."""
    n_records = scores.shape[1]
    order = np.argsort(scores, axis=1)
    ascending = np.take_along_axis(scores, order, axis=1)
    is_first = np.ones(scores.shape, dtype=np.bool_)  # of the records that tie
    is_first[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    at = np.arange(n_records)
    first = np.maximum.accumulate(np.where(is_first, at, 0), axis=1)
    ends = np.concatenate([is_first[:, 1:], np.ones((len(scores), 1), dtype=np.bool_)], axis=1)
    last = np.minimum.accumulate(np.where(ends, at, n_records)[:, ::-1], axis=1)[:, ::-1]
    sorted_members = np.take_along_axis(is_member, order, axis=1)
    counts = np.zeros((len(scores), n_records + 1), dtype=np.int64)
    np.cumsum(sorted_members, axis=1, out=counts[:, 1:])
    lower, not_above = np.take_along_axis(counts, first, 1), np.take_along_axis(counts, last + 1, 1)
    members, nonmembers = np.empty(scores.shape), np.empty(scores.shape)
    reaching = np.empty(scores.shape, dtype=np.int64)
    n_nonmembers = n_records - counts[:, -1:]
    np.put_along_axis(members, order, (lower + not_above) / 2, axis=1)
    np.put_along_axis(nonmembers, order, (first + last + 1 - lower - not_above) / 2, axis=1)
    np.put_along_axis(reaching, order, n_nonmembers - (first - lower), axis=1)
    return Ranked(scores, is_member, members, nonmembers, reaching)


def auc_parts(ranks: Ranked) -> FloatArray:
    """Parts in the mean AUC: each record's placement among the other side; float64 (records,)."""
    of_members = ranks.nonmembers_below / np.maximum(ranks.n_nonmembers, 1)
    of_nonmembers = 1 - ranks.members_below / np.maximum(ranks.n_members, 1)
    return rate_parts(of_members, ranks.is_member) + _deviations(of_nonmembers, ~ranks.is_member)


def tpr_parts(ranks: Ranked, fpr: float, slope: float) -> FloatArray:
    """Parts in the mean TPR at an expected FPR, where the ROC curve has this slope; float64 (records,).

    Non-members set the threshold, so they have a part: one more above it moves it up, which costs as many
    members as the ROC curve's slope says.
    """
    called = _called(ranks, fpr)
    return rate_parts(called, ranks.is_member) - slope * _deviations(called, ~ranks.is_member)


def tpr_slope(ranks: Ranked, fpr: float) -> float:
    """Slope of the mean ROC curve, from half to twice the FPR."""
    ends = fpr / 2, min(2 * fpr, 1.0)
    low, high = (float(_rate(_called(ranks, end), ranks.is_member).mean()) for end in ends)
    return (high - low) / (ends[1] - ends[0])


def advantage_thresholds(scores: FloatArray, is_member: BoolArray) -> FloatArray:
    """For the advantage, the threshold of each record, which comes from the other half; (records,)."""
    fold, thresholds = halves(scores.shape[1]), np.empty(scores.shape[1])
    for half in (0, 1):
        other = fold != half
        thresholds[fold == half] = best_threshold(scores[:, other], is_member[:, other])
    return thresholds


def agreement_of_halves(advantage: float, standard_error: float) -> float:
    """Variance of the advantage, as a multiple of what it would be if its two halves were independent.

    Each half is measured at the other's best threshold, so both are high where their curves happen to agree.
    TPR - FPR is a Brownian bridge where nothing leaks; with parabolas added to bridges, the multiple is 1.25
    to 1.47 up to three standard errors, 1.23 at six and 1.06 at eleven.
    """
    if not standard_error > 0:  # 0, or unknown
        return 1.0
    return 1 + 0.5 / (1 + (advantage / (6 * standard_error)) ** 2)


def halves(n_records: int) -> IntArray:
    """A random half of the records, 0 or 1 for each; the same for the same number of records."""
    return np.random.default_rng(0).permutation(n_records) % 2


def best_threshold(scores: FloatArray, is_member: BoolArray) -> float:
    """The threshold with the largest mean TPR - FPR over targets, smoothed; both (targets, records)."""
    n_members = np.maximum(is_member.sum(axis=1, keepdims=True), 1)
    n_nonmembers = np.maximum((~is_member).sum(axis=1, keepdims=True), 1)
    weights = np.where(is_member, 1 / n_members, -1 / n_nonmembers)
    grid = np.quantile(scores, 1 - _SHARES, method="higher")
    reached = np.searchsorted(grid[::-1], scores.reshape(-1), side="right")  # number of thresholds reached
    by_number = np.bincount(reached, weights.reshape(-1), len(grid) + 1)
    curve = by_number[::-1].cumsum()[:-1]  # lowest threshold last
    return float(grid[int(np.argmax(_SMOOTHING @ curve))])


def advantage_parts(scores: FloatArray, is_member: BoolArray, thresholds: FloatArray) -> FloatArray:
    """Parts in the mean of TPR - FPR, half of the records after the other; float64 (records,).

    Args:
        scores: float64 (targets, records).
        is_member: bool (targets, records).
        thresholds: float64 (records,), see `advantage_thresholds`.
    """
    called = (scores >= thresholds).astype(np.float64)
    parts, fold = np.empty(called.shape[1]), halves(called.shape[1])
    for half in (0, 1):
        own = fold == half
        members = is_member[:, own]
        parts[own] = (rate_parts(called[:, own], members) - rate_parts(called[:, own], ~members)) / 2
    return parts


def rate_parts(values: FloatArray, counted: BoolArray) -> FloatArray:
    """Parts in the mean over targets of the mean value of the counted records; float64 (records,).

    Args:
        values: float64 (targets, records).
        counted: bool (targets, records).
    """
    parts: FloatArray = _deviations(values, counted) + float(_rate(values, counted).mean()) / values.shape[1]
    return parts


def _deviations(values: FloatArray, counted: BoolArray) -> FloatArray:
    """Influence of each record on the mean over targets; sums to 0; float64 (records,)."""
    off = np.where(counted, values - _rate(values, counted)[:, None], 0.0)
    influence: FloatArray = (off / np.maximum(counted.sum(axis=1, keepdims=True), 1)).mean(axis=0)
    return influence


def _rate(values: FloatArray, counted: BoolArray) -> FloatArray:
    """Mean over the counted records of each target; float64 (targets,)."""
    rate: FloatArray = np.where(counted, values, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    return rate


def _called(ranks: Ranked, fpr: float) -> FloatArray:
    """1 for a record above the non-member that sets the threshold, 0 below, between at interpolated ranks."""
    rank = fpr * (ranks.n_nonmembers + 1)  # (targets, 1)
    lower = np.floor(rank)
    beyond = rank - lower
    reaching = ranks.nonmembers_reaching
    return np.asarray((1 - beyond) * (reaching < lower) + beyond * (reaching < lower + 1))
