"""Empirical epsilon: a lower bound on the epsilon of differential privacy that an attack demonstrates.

If training is (epsilon, delta)-private, every attack obeys `TPR <= e^eps FPR + delta` and
`TNR <= e^eps FNR + delta` (Kairouz et al. 2015). Confidence bounds on the rates give a lower bound on
epsilon: `max(log((TPR_lo - delta) / FPR_hi), log((TNR_lo - delta) / FNR_hi), 0)`. The threshold is chosen on
the same scores, so the bound is computed at several ranks, and the error is divided among them (Bonferroni).

The bounds treat scores as independent draws, from one distribution for members and one for non-members. This
is true for scores of independently trained models or canaries, and an approximation for many records of one
model. `leakscope.stats.gdp` has a sharper bound that assumes a Gaussian trade-off.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.stats.intervals import check_level, clopper_pearson_bounds, clopper_pearson_lows
from leakscope.stats.roc import SplitScores

THRESHOLDS = 16
"""Predefined ranks among which the error of a bound is divided, where nobody chose a number."""


class EpsilonBound(NamedTuple):
    """A lower bound on epsilon.

    Attributes:
        epsilon: the bound, at least 0, in nats; NaN when undefined.
        delta: delta of the (epsilon, delta) claim.
        confidence: probability that the true epsilon is not below the bound.
        method: how the bound was computed.
        reason: why `epsilon` is NaN; empty otherwise.
    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    reason: str = ""


def epsilon_of_split(
    sides: SplitScores, *, delta: float = 1e-5, confidence: float = 0.95, n_thresholds: int = THRESHOLDS
) -> EpsilonBound:
    """Lower bound on epsilon from the scores of one attack, for any trade-off curve.

    Ranks need an order, so ties are broken at random, always by the same seed: the attack then flips a coin
    within a tie, which differential privacy covers as well.

    Args:
        sides: sorted scores, higher means member.
        delta: in [0, 1).
        confidence: one-sided confidence of the bound.
        n_thresholds: number of predefined ranks, at least 2, among which the error is divided.
    """
    check_delta(delta)
    check_level(confidence)
    if n_thresholds < 2:
        raise InputError(f"n_thresholds must be at least 2, got {n_thresholds}")
    method = f"Clopper-Pearson, Bonferroni over {n_thresholds} thresholds"
    if min(map(len, sides)) < 1:
        reason = f"needs both sides, got {len(sides.members)} members and {len(sides.nonmembers)} non-members"
        return EpsilonBound(float("nan"), delta, confidence, method, reason)
    rates = rank_rates(sides, n_thresholds, (1 - confidence) / n_thresholds)
    return EpsilonBound(float(epsilon_from_rates(*rates, delta).max()), delta, confidence, method)


def epsilon_from_rates(tpr_low: npt.ArrayLike, fpr_high: npt.ArrayLike, delta: float) -> FloatArray:
    """The largest epsilon, at least 0, that a TPR this high and an FPR this low exclude; elementwise.

    TNR_lo is `1 - fpr_high` and FNR_hi is `1 - tpr_low`, so two one-sided bounds cover both directions.
    """
    tpr, fpr = np.asarray(tpr_low, np.float64), np.asarray(fpr_high, np.float64)
    from_members = _log_ratio(tpr - delta, fpr)
    from_nonmembers = _log_ratio(1 - fpr - delta, 1 - tpr)
    return np.maximum(np.maximum(from_members, from_nonmembers), 0.0)


def check_delta(delta: float) -> None:
    """Raises InputError for a delta outside [0, 1)."""
    if not 0 <= delta < 1:
        raise InputError(f"delta must be in [0, 1), got {delta}")


def _log_ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """log(above / below); -inf where `above` is not positive, inf where only `below` is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0, np.log(np.maximum(above, 0)) - np.log(np.maximum(below, 0)), -np.inf)


class RankRates(NamedTuple):
    """Bounds on the rates of an attack at several thresholds; float64 (thresholds,) each.

    Attributes:
        tpr_low: the true positive rate is at least this.
        fpr_high: the false positive rate is at most this.
    """

    tpr_low: FloatArray
    fpr_high: FloatArray


RanksOf = Callable[[int, int], IntArray]
"""Number of non-members, number of ranks -> how many non-members are above each barrier, ascending."""


def geometric_ranks(n_nonmembers: int, n_ranks: int) -> IntArray:
    """Ranks that are dense where false positives are few, up to half of the non-members."""
    exponents = (np.arange(n_ranks) + 0.5) / n_ranks
    n_false = np.floor((n_nonmembers / 2) ** exponents).astype(np.int64)
    return np.minimum(n_false, n_nonmembers - 1)


def rank_rates(
    sides: SplitScores, n_thresholds: int, error: float, ranks_of: RanksOf = geometric_ranks
) -> RankRates:
    """Bounds at predefined ranks from the top and from the bottom, at each threshold with the given error.

    From the top the threshold is an order statistic of the non-members. The FPR above the one with `r`
    non-members above it is Beta(r + 1, n - r), whose quantile is the Clopper-Pearson bound for r of n: the
    bound is exact although the threshold comes from the same scores. The members do not influence it, so
    their bound is exact as well. From the bottom the roles are swapped, so the rates are the true and false
    *negative* rates, which obey the same inequalities. Ties are broken at random, always by the same seed.
    """
    n_top, rng = n_thresholds // 2, np.random.default_rng(0)
    top = _rates_from_the_top(sides, ranks_of, n_top, error, rng)
    mirrored = SplitScores(-sides.nonmembers[::-1], -sides.members[::-1])
    bottom = _rates_from_the_top(mirrored, ranks_of, n_thresholds - n_top, error, rng)
    return RankRates(*(np.concatenate(ends) for ends in zip(top, bottom, strict=True)))


def _rates_from_the_top(
    sides: SplitScores, ranks_of: RanksOf, n_ranks: int, error: float, rng: np.random.Generator
) -> RankRates:
    """Bounds where "member" means a score above a barrier, a non-member of given rank."""
    n_members, n_nonmembers = len(sides.members), len(sides.nonmembers)
    n_false, fpr_high = barrier_rates(n_nonmembers, n_ranks, error, ranks_of)
    barriers = sides.nonmembers[n_nonmembers - 1 - n_false]
    n_true = n_members - np.searchsorted(sides.members, barriers, side="right")
    n_true = n_true + _tied_members_called(sides, barriers, n_false, rng)
    return RankRates(clopper_pearson_lows(n_true, n_members, 1 - error), fpr_high)


@lru_cache(1024)
def barrier_rates(
    n_nonmembers: int, n_ranks: int, error: float, ranks_of: RanksOf = geometric_ranks
) -> tuple[IntArray, FloatArray]:
    """Predefined ranks of non-members, and the bounds of the FPR above them; (n_ranks,) each.

    Most targets of a population have equally many non-members.
    """
    n_false = ranks_of(n_nonmembers, n_ranks)
    return n_false, clopper_pearson_bounds(n_false, n_nonmembers, 1 - error).high


def _tied_members_called(
    sides: SplitScores, barriers: FloatArray, n_false: IntArray, rng: np.random.Generator
) -> IntArray:
    """Members that tie with each barrier and end up above it when ties are broken at random; (barriers,).

    A barrier is the non-member with `n_false` non-members above it, some of which may tie with it.
    """
    called = np.zeros(len(barriers), dtype=np.int64)
    ends = [np.searchsorted(sides.members, barriers, side) for side in ("left", "right")]
    if (ends[0] == ends[1]).all():
        return called
    for value in np.unique(barriers):
        n_tied = [int(np.searchsorted(s, value, "right") - np.searchsorted(s, value, "left")) for s in sides]
        if not n_tied[0]:
            continue
        from_the_top = rng.permutation(np.arange(sum(n_tied)) < n_tied[0])  # true: a member
        n_above = len(sides.nonmembers) - int(np.searchsorted(sides.nonmembers, value, "right"))
        at = np.flatnonzero(barriers == value)
        places = np.flatnonzero(~from_the_top)[n_false[at] - n_above]  # of the barriers themselves
        called[at] = np.cumsum(from_the_top)[places]
    return called
