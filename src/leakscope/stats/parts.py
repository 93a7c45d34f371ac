"""Each record's part in a figure: numbers that add up to the mean of the figure over targets.

The AUC, a TPR or the advantage is nearly a mean over records. Known record by record, it tells how much the
figure would vary with other records, other members or other reference models (`leakscope.stats.two_way`).

Two figures choose a threshold, and pay for it:

- The TPR at an FPR counts the members above the non-member of rank `FPR * (n + 1)`, interpolated between
  ranks. A threshold at the k-th of n non-members has an expected FPR of k / (n + 1), so a model that leaks
  nothing has a TPR of exactly the FPR on average. (The best threshold within the budget, as on a ROC curve,
  exceeds it.) Records that tie are in random order: an attacker who may call some of them draws lots.
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
        weights: float64 (targets, records), 1 / n for who is one and 0 for others: to multiply by it is
            several times faster than to choose by a mask, which the processor cannot predict.
        n: int64 (targets,), how many there are.
    """

    weights: FloatArray
    n: IntArray

    @classmethod
    def of(cls, is_counted: BoolArray) -> Side:
        """From who is one."""
        n = is_counted.sum(axis=1)
        weights = is_counted.astype(np.float64)
        weights *= (1 / np.maximum(n, 1))[:, None]
        return cls(weights, n)


class Barrier(NamedTuple):
    """A non-member of each target that others are compared with; each float64 (targets,).

    Attributes:
        score: its score; infinite above or below all records.
        members_above: the number of members above it; ties are in random order.
        tied_members: of the members that tie with it, the share above it.
        tied_nonmembers: of the non-members that tie with it, itself included, the share above it.
    """

    score: FloatArray
    members_above: FloatArray
    tied_members: FloatArray
    tied_nonmembers: FloatArray


class Ranked(NamedTuple):
    """Scores of some targets, and where members and non-members are among each other.

    Attributes:
        scores: float64 (targets, records).
        members: who is a member.
        nonmembers: who is none.
        wins: float64 (targets, records), for a member the number of non-members with a lower score, for a
            non-member the number of members with a higher one; ties count half.
        ordered_nonmembers: float64, the scores of each target's non-members, ascending, one target after the
            other.
        above: float64 (3, non-members), the last three attributes of `Barrier`, for each of them.
        has_ties: whether any records tie.
    """

    scores: FloatArray
    members: Side
    nonmembers: Side
    wins: FloatArray
    ordered_nonmembers: FloatArray
    above: FloatArray
    has_ties: bool

    def highest_nonmembers(self, rank: IntArray) -> Barrier:
        """The non-member of this rank, 1 for the highest score.

        Args:
            rank: int64 (targets,); 0 is above all records, and more than there are non-members below all.
        """
        ends, n = np.cumsum(self.nonmembers.n), self.nonmembers.n
        at = np.clip(ends - rank, 0, max(len(self.ordered_nonmembers) - 1, 0))
        scores, above = np.full(len(n), np.inf), np.zeros((3, len(n)))
        is_one, is_below = (rank >= 1) & (rank <= n), rank > n
        scores[is_one], above[:, is_one] = self.ordered_nonmembers[at[is_one]], self.above[:, at[is_one]]
        scores[is_below], above[0, is_below], above[1:, is_below] = -np.inf, self.members.n[is_below], 1.0
        return Barrier(scores, *above)


def ranked(scores: FloatArray, is_member: BoolArray) -> Ranked:
    """Ranks of scores, float64 (targets, records)."""
    n_targets, n_records = scores.shape
    order = np.argsort(scores, axis=1)
    order += n_records * np.arange(n_targets)[:, None]  # places in the scores of all targets
    ascending, member = scores.reshape(-1)[order], is_member.reshape(-1)[order]
    counts: FloatArray = np.zeros((n_targets, n_records + 1))
    np.cumsum(member, axis=1, out=counts[:, 1:])
    first, last = _ties(ascending)
    if first is last:
        lower, not_above = counts[:, :-1], counts[:, 1:]
    else:
        lower, not_above = np.take_along_axis(counts, first, 1), np.take_along_axis(counts, last + 1, 1)
    n_members, wins = counts[:, -1:], np.empty(scores.shape)
    # Members below a record are `below`; a non-member wins over the others, a member over the rest below it.
    below = (lower + not_above) / 2
    wins.reshape(-1)[order] = n_members - below + ((first + last + 1) / 2 - n_members) * member
    nonmember = np.flatnonzero(~member)
    above = np.zeros((3, len(nonmember)))
    above[0] = (n_members - not_above).reshape(-1)[nonmember]
    if first is not last:
        n_tied = (not_above - lower).reshape(-1)[nonmember]  # members
        before, first_of_ties, end_of_ties = (
            np.asarray(place - members, dtype=np.float64)
            for place, members in (
                (np.arange(n_records), counts[:, :-1]),
                (first, lower),
                (last + 1, not_above),
            )
        )
        above[1:] = _shares_above(before, first_of_ties, end_of_ties)[:, nonmember]
        above[0] += n_tied * above[1]
    sides = Side.of(is_member), Side.of(~is_member)
    return Ranked(scores, *sides, wins, ascending.reshape(-1)[nonmember], above, first is not last)


def _shares_above(before: FloatArray, first: FloatArray, end: FloatArray) -> FloatArray:
    """Of the members and of the non-members that tie with a non-member, the shares above it, in random order.

    Args:
        before: float64 (targets, records), the number of non-members before a record in ascending order.
        first: the same for the first of the records that tie with it.
        end: the number of non-members before the first record above it.

    Returns:
        float64 (2, targets * records); of a record that is no non-member, of no meaning.
    """
    n_tied, j = end - first, end - before  # the j-th from above among its ties
    return np.stack([j / (n_tied + 1), (j - 1) / np.maximum(n_tied, 1)]).reshape(2, -1)


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


def auc_parts(ranks: Ranked, means: FloatArray | None = None) -> FloatArray:
    """Parts in the mean AUC: each record's placement among the other side; float64 (..., records).

    Args:
        ranks: of the scores.
        means: float64 (..., targets), the weights of the targets in each mean; None: one mean of all.
    """
    (n_targets, n_records), members, nonmembers = ranks.wins.shape, ranks.members, ranks.nonmembers
    of_targets = _equal(n_targets) if means is None else means
    share = 1 / np.maximum(members.n * nonmembers.n, 1)
    auc = share * ranks.wins.sum(axis=1) / 2  # every pair is won from both of its ends, or from none
    own = of_targets * auc
    influence = (of_targets * share) @ ranks.wins - own @ members.weights - own @ nonmembers.weights
    return np.asarray(influence + own.sum(axis=-1, keepdims=True) / n_records)


def tpr_parts(
    ranks: Ranked, fpr: float, slope: float | FloatArray, means: FloatArray | None = None
) -> FloatArray:
    """Parts in the mean TPR at an expected FPR, where the ROC curve has this slope; float64 (..., records).

    Non-members set the threshold, so they have a part: one more above it moves it up, which costs as many
    members as the ROC curve's slope says. The one at the threshold counts among them; without it, a threshold
    at the highest non-member would seem to be known for sure. `means` as in `auc_parts`.
    """
    called = _called(ranks, fpr)
    of_targets = _equal(len(called)) if means is None else means
    of_nonmembers, _ = _deviations(_called(ranks, fpr, n_more=1), ranks.nonmembers, of_targets)
    return _rate_parts(called, ranks.members, of_targets) - np.asarray(slope)[..., None] * of_nonmembers


def tpr_slope(ranks: Ranked, fpr: float, means: FloatArray | None = None) -> FloatArray:
    """Slope of the mean ROC curve at an FPR; float64 (...,), `means` as in `auc_parts`.

    A line from half to twice the FPR is up to 8% less steep than a concave curve, and intervals would be too
    narrow. A TPR that is a power of the FPR rises by `2 sinh(exponent log 2)` of itself between the two.
    """
    of_targets = _equal(len(ranks.scores)) if means is None else means
    if fpr >= 1:  # all are called, whatever the threshold is
        return np.zeros(of_targets.shape[:-1])
    factor = min(2.0, 1 / fpr)
    low, at, high = (of_targets @ _tpr(ranks, fpr * by) for by in (1 / factor, 1.0, factor))
    of_line = (high - low) / (fpr * (factor - 1 / factor))
    share = np.divide(high - low, 2 * at, out=np.zeros_like(at), where=at > 0)
    of_power = np.arcsinh(share) / np.log(factor) * at / fpr
    return np.asarray(np.maximum(of_line, of_power))


def _tpr(ranks: Ranked, fpr: float) -> FloatArray:
    """Of each target."""
    rank, beyond = _rank_of_threshold(ranks, fpr)
    at, next_lower = (ranks.highest_nonmembers(one).members_above for one in (rank, rank + 1))
    tpr: FloatArray = ((1 - beyond) * at + beyond * next_lower) / np.maximum(ranks.members.n, 1)
    return tpr


def _equal(n_targets: int) -> FloatArray:
    """The weights of all targets in their mean."""
    return np.full(n_targets, 1 / max(n_targets, 1))


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
    flat, n_shares = scores.reshape(-1), len(_SHARES)
    order = np.argsort(flat)
    ascending = flat[order]
    grid = ascending[np.ceil((flat.size - 1) * (1 - _SHARES)).astype(np.int64)]  # descending
    starts = np.searchsorted(ascending, grid[::-1])
    reached = np.empty(flat.size, dtype=np.int64)  # number of thresholds reached
    reached[order] = np.repeat(np.arange(n_shares + 1), np.diff(starts, prepend=0, append=flat.size))
    by_number = np.bincount(reached, weights.reshape(-1), len(grid) + 1)
    curve = by_number[::-1].cumsum()[:-1]  # lowest threshold last
    return float(grid[int(np.argmax(_SMOOTHING @ curve))])


def advantage_parts(
    scores: FloatArray, is_member: BoolArray, thresholds: FloatArray, means: FloatArray | None = None
) -> FloatArray:
    """Parts in the mean of TPR - FPR, half of the records after the other; float64 (..., records).

    Args:
        scores: float64 (targets, records).
        is_member: bool (targets, records).
        thresholds: float64 (records,), see `advantage_thresholds`.
        means: as in `auc_parts`.
    """
    called = (scores >= thresholds).astype(np.float64)
    of_targets, fold = _equal(len(called)) if means is None else means, halves(called.shape[1])
    parts = np.empty((*of_targets.shape[:-1], called.shape[1]))
    for half in (0, 1):
        own = np.flatnonzero(fold == half)
        of_half, members = called[:, own], is_member[:, own]
        tpr, fpr = (rate_parts(of_half, side, of_targets) for side in (members, ~members))
        parts[..., own] = (tpr - fpr) / 2
    return parts


def rate_parts(values: FloatArray, counted: BoolArray, means: FloatArray | None = None) -> FloatArray:
    """Parts in the mean over targets of the mean value of the counted records; float64 (..., records).

    Args:
        values: float64 (targets, records), finite.
        counted: bool (targets, records).
        means: as in `auc_parts`.
    """
    return _rate_parts(values, Side.of(counted), _equal(len(values)) if means is None else means)


def _rate_parts(values: FloatArray, side: Side, means: FloatArray) -> FloatArray:
    influence, rate = _deviations(values, side, means)
    return np.asarray(influence + (means @ rate)[..., None] / values.shape[1])


def _deviations(values: FloatArray, side: Side, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Influence of each record on the means over targets, which sums to 0; and the rate of each target."""
    weighted = values * side.weights
    rate = weighted.sum(axis=1)
    return means @ weighted - (means * rate) @ side.weights, rate


def _rank_of_threshold(ranks: Ranked, fpr: float) -> tuple[IntArray, FloatArray]:
    """The rank of the non-member that sets the threshold, and how far beyond it the threshold is."""
    rank = fpr * (ranks.nonmembers.n + 1)
    lower = np.floor(rank)
    return lower.astype(np.int64), rank - lower


def _called(ranks: Ranked, fpr: float, n_more: int = 0) -> FloatArray:
    """1 for a record above the non-member that sets the threshold, 0 below, between at interpolated ranks.

    Records that tie with that non-member are above it with the probability of a random order. With `n_more`,
    the threshold is so many non-members lower.
    """
    rank, beyond = _rank_of_threshold(ranks, fpr)
    rank = rank + n_more
    called = _above(ranks, rank)
    if not beyond.any():
        return called
    called *= (1 - beyond)[:, None]
    next_lower = _above(ranks, rank + 1)
    next_lower *= beyond[:, None]
    called += next_lower
    return called


def _above(ranks: Ranked, rank: IntArray) -> FloatArray:
    """The probability that each record is above the non-member of this rank; float64 (targets, records)."""
    barrier = ranks.highest_nonmembers(rank)
    called = (ranks.scores > barrier.score[:, None]).astype(np.float64)
    if ranks.has_ties:
        shares = barrier.tied_members[:, None], barrier.tied_nonmembers[:, None]
        called += np.where(ranks.members.weights > 0, *shares) * (ranks.scores == barrier.score[:, None])
    return called
