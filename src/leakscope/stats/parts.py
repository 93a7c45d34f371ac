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

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray

# Shares of records called members among which the threshold of the advantage is chosen.
_SHARES = np.arange(0.02, 0.99, 0.02)
# TPR - FPR as a function of the share called is smoothed by q (1 - q) times a parabola before its maximum is
# taken: where the curve is flat, noise would otherwise choose the threshold.
_BASIS = np.stack([_SHARES * (1 - _SHARES) * _SHARES**power for power in range(3)], axis=1)
_SMOOTHING = _BASIS @ np.linalg.pinv(_BASIS)


class Side(NamedTuple):
    """The members of some targets, or their non-members.

    Attributes:
        counts: float64 (targets, records), 1 for who is one and 0 for others: to multiply by it is several
            times faster than to choose by a mask, which the processor cannot predict.
        n: int64 (targets, 1), how many there are, at least 1.
    """

    counts: FloatArray
    n: IntArray

    @classmethod
    def of(cls, is_counted: BoolArray) -> Side:
        """From who is one."""
        n = is_counted.sum(axis=1, keepdims=True)
        return cls(is_counted.astype(np.float64), np.maximum(n, 1))


class Ranked(NamedTuple):
    """Scores of some targets, and for each how many records of either side reach it; (targets, records) each.

    Attributes:
        members: who is a member.
        nonmembers: who is none.
        n_nonmembers: non-members of each target; (targets, 1).
        members_below: members with a lower score, ties count half.
        nonmembers_below: non-members with a lower score, ties count half.
        nonmembers_reaching: non-members with this score or a higher one.
    """

    members: Side
    nonmembers: Side
    n_nonmembers: IntArray
    members_below: FloatArray
    nonmembers_below: FloatArray
    nonmembers_reaching: IntArray


def ranked(scores: FloatArray, is_member: BoolArray) -> Ranked:
    """Ranks of scores, float64 (targets, records)."""
    n_targets, n_records = scores.shape
    order = np.argsort(scores, axis=1)
    order += n_records * np.arange(n_targets)[:, None]  # places in the scores of all targets
    ascending = scores.reshape(-1)[order]
    counts = np.zeros((n_targets, n_records + 1), dtype=np.int64)
    np.cumsum(is_member.reshape(-1)[order], axis=1, out=counts[:, 1:])
    first, last = _ties(ascending)
    if first is last:
        lower, not_above = counts[:, :-1], counts[:, 1:]
    else:
        lower, not_above = np.take_along_axis(counts, first, 1), np.take_along_axis(counts, last + 1, 1)
    n_nonmembers = n_records - counts[:, -1:]
    members, nonmembers = np.empty(scores.shape), np.empty(scores.shape)
    reaching = np.empty(scores.shape, dtype=np.int64)
    either_side = lower + not_above
    members.reshape(-1)[order] = either_side / 2
    nonmembers.reshape(-1)[order] = (first + last + 1 - either_side) / 2
    reaching.reshape(-1)[order] = n_nonmembers - (first - lower)
    return Ranked(Side.of(is_member), Side.of(~is_member), n_nonmembers, members, nonmembers, reaching)


def _ties(ascending: FloatArray) -> tuple[IntArray, IntArray]:
    """The first and the last of the records that tie with each; one array for both where none do."""
    n_targets, n_records = ascending.shape
    at = np.arange(n_records)
    differs = ascending[:, 1:] != ascending[:, :-1]
    if differs.all():
        return at, at
    ends = np.ones((n_targets, 1), dtype=np.bool_)
    first = np.maximum.accumulate(np.where(np.concatenate([ends, differs], axis=1), at, 0), axis=1)
    closes = np.where(np.concatenate([differs, ends], axis=1), at, n_records)
    return first, np.minimum.accumulate(closes[:, ::-1], axis=1)[:, ::-1]


def auc_parts(ranks: Ranked) -> FloatArray:
    """Parts in the mean AUC: each record's placement among the other side; float64 (records,)."""
    of_members = ranks.nonmembers_below / ranks.nonmembers.n
    of_nonmembers = 1 - ranks.members_below / ranks.members.n
    return _rate_parts(of_members, ranks.members) + _deviations(of_nonmembers, ranks.nonmembers)


def tpr_parts(ranks: Ranked, fpr: float, slope: float) -> FloatArray:
    """Parts in the mean TPR at an expected FPR, where the ROC curve has this slope; float64 (records,).

    Non-members set the threshold, so they have a part: one more above it moves it up, which costs as many
    members as the ROC curve's slope says.
    """
    called = _called(ranks, fpr)
    return _rate_parts(called, ranks.members) - slope * _deviations(called, ranks.nonmembers)


def tpr_slope(ranks: Ranked, fpr: float) -> float:
    """Slope of the mean ROC curve, from half to twice the FPR."""
    ends = fpr / 2, min(2 * fpr, 1.0)
    low, high = (float(_rate(_called(ranks, end), ranks.members).mean()) for end in ends)
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


@lru_cache(64)
def halves(n_records: int) -> IntArray:
    """A random half of the records, 0 or 1 for each; the same for the same number of records."""
    half = np.random.default_rng(0).permutation(n_records) % 2
    half.flags.writeable = False  # all callers share it
    return half


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
        own = np.flatnonzero(fold == half)
        of_half, members = called[:, own], is_member[:, own]
        parts[own] = (rate_parts(of_half, members) - rate_parts(of_half, ~members)) / 2
    return parts


def rate_parts(values: FloatArray, counted: BoolArray) -> FloatArray:
    """Parts in the mean over targets of the mean value of the counted records; float64 (records,).

    Args:
        values: float64 (targets, records), finite.
        counted: bool (targets, records).
    """
    return _rate_parts(values, Side.of(counted))


def _rate_parts(values: FloatArray, side: Side) -> FloatArray:
    rate = _rate(values, side)
    parts: FloatArray = _deviations(values, side, rate) + float(rate.mean()) / values.shape[1]
    return parts


def _deviations(values: FloatArray, side: Side, rate: FloatArray | None = None) -> FloatArray:
    """Influence of each record on the mean over targets; sums to 0; float64 (records,)."""
    rate = _rate(values, side) if rate is None else rate
    off = values - rate[:, None]
    off *= side.counts
    off /= side.n
    influence: FloatArray = off.sum(axis=0) / len(off)
    return influence


def _rate(values: FloatArray, side: Side) -> FloatArray:
    """Mean over the counted records of each target; float64 (targets,)."""
    rate: FloatArray = (values * side.counts).sum(axis=1) / side.n[:, 0]
    return rate


def _called(ranks: Ranked, fpr: float) -> FloatArray:
    """1 for a record above the non-member that sets the threshold, 0 below, between at interpolated ranks."""
    rank = fpr * (ranks.n_nonmembers + 1)  # (targets, 1)
    lower = np.floor(rank)
    beyond, at = rank - lower, lower.astype(np.int64)
    reaching = ranks.nonmembers_reaching
    called: FloatArray = (reaching < at) * ((1 - beyond) + beyond)
    if beyond.any():
        called += (reaching == at) * beyond
    return called
