"""Empirical epsilon: what an attack proves about a mechanism's differential privacy, as a lower bound.

If training is (epsilon, delta)-private, every attack obeys `TPR <= e^eps FPR + delta` and
`TNR <= e^eps FNR + delta` (Kairouz et al. 2015). Confidence bounds on the rates give a lower bound on
epsilon: `max(log((TPR_lo - delta) / FPR_hi), log((TNR_lo - delta) / FNR_hi), 0)`. It holds with the stated
confidence only if the choice of the threshold is paid for, hence the strategies: `Split` chooses on one half
of the records and bounds on the other, `Bonferroni` bounds at several ranks and divides the error.

The bounds treat scores as independent draws, one law for members and one for non-members: true for scores of
independently trained models or canaries, an approximation for many records of one model.
`leakscope.stats.gdp` has a sharper bound that assumes a Gaussian trade-off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.stats.intervals import check_level, clopper_pearson_bounds
from leakscope.stats.roc import SplitScores, split_scores

# Thresholds tried on the choosing half of a split: they cost nothing in confidence.
_N_SPLIT_CANDIDATES = 256


@dataclass(frozen=True)
class Split:
    """Choose the threshold on a random half of each side, bound on the other half."""

    seed: int

    @property
    def method(self) -> str:
        """In words, for a report."""
        return f"Clopper-Pearson, threshold chosen on the other half (split seed {self.seed})"


@dataclass(frozen=True)
class Bonferroni:
    """Bound at `n_thresholds` ranks fixed beforehand, the error divided among them.

    Ranks need an order, so tied scores are put in a random one that `seed` fixes: the attack then tosses a
    coin within a tie, which privacy covers as well. Usually sharper than `Split`.
    """

    n_thresholds: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_thresholds < 2:
            raise InputError(f"n_thresholds must be at least 2, got {self.n_thresholds}")

    @property
    def method(self) -> str:
        """In words, for a report."""
        return f"Clopper-Pearson, Bonferroni over {self.n_thresholds} thresholds"


class EpsilonBound(NamedTuple):
    """A lower bound on epsilon.

    Attributes:
        epsilon: the bound, at least 0, in nats; NaN when undefined.
        delta: of the (epsilon, delta) claim.
        confidence: probability that the true epsilon is not below the bound.
        threshold: member when `score >= threshold`, the decision behind the bound; NaN when none stands out.
        method: how it was made, in words.
        reason: why `epsilon` is NaN; empty otherwise.
    """

    epsilon: float
    delta: float
    confidence: float
    threshold: float
    method: str
    reason: str = ""


def epsilon_lower_bound(
    scores: npt.ArrayLike,
    is_member: npt.ArrayLike,
    strategy: Split | Bonferroni,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> EpsilonBound:
    """Lower bound on epsilon from one attack's scores, free of assumptions about their laws.

    Args:
        scores: float (records,), higher means member.
        is_member: bool (records,).
        strategy: how the choice of the threshold is paid for.
        delta: in [0, 1).
        confidence: of the bound, one-sided.
    """
    return epsilon_of_split(split_scores(scores, is_member), strategy, delta=delta, confidence=confidence)


def epsilon_of_split(
    sides: SplitScores, strategy: Split | Bonferroni, *, delta: float = 1e-5, confidence: float = 0.95
) -> EpsilonBound:
    """`epsilon_lower_bound` of sides that are already sorted."""
    check_delta(delta)
    check_level(confidence)
    n_least = 1 if isinstance(strategy, Bonferroni) else 2
    if min(map(len, sides)) < n_least:
        reason = f"needs both sides, got {len(sides.members)} members and {len(sides.nonmembers)} non-members"
        return EpsilonBound(float("nan"), delta, confidence, float("nan"), strategy.method, reason)
    if isinstance(strategy, Bonferroni):
        epsilon, threshold = _bonferroni_bound(sides, strategy, delta, 1 - confidence)
    else:
        epsilon, threshold = _split_bound(sides, strategy.seed, delta, 1 - confidence)
    return EpsilonBound(epsilon, delta, confidence, threshold, strategy.method)


def epsilon_at_threshold(
    scores: npt.ArrayLike,
    is_member: npt.ArrayLike,
    threshold: float,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> EpsilonBound:
    """Lower bound on epsilon at one threshold that was fixed without looking at these scores."""
    check_delta(delta)
    check_level(confidence)
    epsilon = _bound_at(split_scores(scores, is_member), threshold, delta, 1 - confidence)
    return EpsilonBound(epsilon, delta, confidence, threshold, "Clopper-Pearson, threshold fixed beforehand")


def epsilon_from_rates(tpr_low: npt.ArrayLike, fpr_high: npt.ArrayLike, delta: float) -> FloatArray:
    """The largest epsilon, at least 0, that a TPR this high and an FPR this low rule out; elementwise.

    TNR_lo is `1 - fpr_high` and FNR_hi is `1 - tpr_low`, so two one-sided bounds serve both directions.
    """
    tpr, fpr = np.asarray(tpr_low, np.float64), np.asarray(fpr_high, np.float64)
    accuse = _log_ratio(tpr - delta, fpr)
    exonerate = _log_ratio(1 - fpr - delta, 1 - tpr)
    return np.maximum(np.maximum(accuse, exonerate), 0.0)


def check_delta(delta: float) -> None:
    """Refuse a delta outside [0, 1)."""
    if not 0 <= delta < 1:
        raise InputError(f"delta must be in [0, 1), got {delta}")


def _log_ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """log(above / below); -inf where `above` is not positive, inf where only `below` is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0, np.log(np.maximum(above, 0)) - np.log(np.maximum(below, 0)), -np.inf)


def _bound_at(sides: SplitScores, threshold: float, delta: float, error: float) -> float:
    n_called = [len(side) - int(np.searchsorted(side, threshold, side="left")) for side in sides]
    low, high = clopper_pearson_bounds(n_called, [len(side) for side in sides], 1 - error)
    return float(epsilon_from_rates(low[0], high[1], delta))


def _split_bound(sides: SplitScores, seed: int, delta: float, error: float) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    chosen_on, bounded_on = zip(*(_random_halves(side, rng) for side in sides), strict=True)
    epsilons, thresholds = _rank_bounds(SplitScores(*chosen_on), _N_SPLIT_CANDIDATES, delta, error)
    threshold = float(thresholds[np.argmax(epsilons)])
    return _bound_at(SplitScores(*bounded_on), threshold, delta, error), threshold


def _random_halves(side: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    in_first = np.zeros(len(side), dtype=np.bool_)
    in_first[rng.permutation(len(side))[: len(side) // 2]] = True
    return side[in_first], side[~in_first]


def _bonferroni_bound(
    sides: SplitScores, strategy: Bonferroni, delta: float, error: float
) -> tuple[float, float]:
    n = strategy.n_thresholds
    rng = np.random.default_rng(strategy.seed)
    epsilons, thresholds = _rank_bounds(sides, n, delta, error / n, rng)
    best = int(np.argmax(epsilons))
    lowest_called = [side[np.searchsorted(side, thresholds[best]) :][:1] for side in sides]
    if epsilons[best] == 0 or not sum(map(len, lowest_called)):
        return float(epsilons[best]), float("nan")
    return float(epsilons[best]), float(np.concatenate(lowest_called).min())


def _rank_bounds(
    sides: SplitScores, n_thresholds: int, delta: float, error: float, rng: np.random.Generator | None = None
) -> tuple[FloatArray, FloatArray]:
    """Bounds, each alone of the given error, at fixed ranks from the top and from the bottom.

    From the top the threshold is an order statistic of the non-members. The FPR above the one with `r`
    non-members above it is Beta(r + 1, n - r), whose quantile is the Clopper-Pearson bound for r of n: the
    bound is exact although the threshold came from the same scores. Members had no part in it, so their
    bound is exact as well. From the bottom the roles are swapped. With `rng`, scores that tie are told apart
    by a coin; without, a threshold takes all of them or none.
    """
    n_top = n_thresholds // 2
    top, above = _accuse_at_ranks(sides, n_top, delta, error, rng)
    mirrored = SplitScores(-sides.nonmembers[::-1], -sides.members[::-1])
    bottom, below = _accuse_at_ranks(mirrored, n_thresholds - n_top, delta, error, rng)
    return np.concatenate([top, bottom]), np.concatenate([np.nextafter(above, np.inf), -below])


def _accuse_at_ranks(
    sides: SplitScores, n_ranks: int, delta: float, error: float, rng: np.random.Generator | None
) -> tuple[FloatArray, FloatArray]:
    """Bounds and barriers: "member" means a score above the barrier; both float64 (n_ranks,)."""
    n_members, n_nonmembers = len(sides.members), len(sides.nonmembers)
    exponents = (np.arange(n_ranks) + 0.5) / n_ranks
    n_false = np.floor((n_nonmembers / 2) ** exponents).astype(np.int64)  # (n_ranks,)
    n_false = np.minimum(n_false, n_nonmembers - 1)
    barriers = sides.nonmembers[n_nonmembers - 1 - n_false]
    n_true = n_members - np.searchsorted(sides.members, barriers, side="right")
    if rng is not None:
        n_true = n_true + _tied_members_called(sides, barriers, n_false, rng)
    tpr_low = clopper_pearson_bounds(n_true, n_members, 1 - error).low
    fpr_high = clopper_pearson_bounds(n_false, n_nonmembers, 1 - error).high
    return epsilon_from_rates(tpr_low, fpr_high, delta), barriers


def _tied_members_called(
    sides: SplitScores, barriers: FloatArray, n_false: IntArray, rng: np.random.Generator
) -> IntArray:
    """Members that tie with each barrier and come above it when ties are put in random order; (barriers,).

    A barrier is the non-member with `n_false` non-members above it, some of which may tie with it.
    """
    called = np.zeros(len(barriers), dtype=np.int64)
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
