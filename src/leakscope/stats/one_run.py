"""Lower bounds on epsilon from one training: many canaries, each in by the flip of a fair coin.

An attacker sees the trained model, guesses for some of the canaries whether they are in, and abstains on the
others. A private training limits how many guesses can be right, although all of them are about one model:

- any (epsilon, delta)-private training: Steinke, Nasr and Jagielski (2023), theorem 5.2;
- a training with a given trade-off curve f, such as the Gaussian one: Mahloujifar, Melis and Chaudhuri
  (2025). It is sharper where the curve is known, as for DP-SGD.

Both bounds hold for one number of guesses that was chosen beforehand. `strongest_bound` tries several, and
divides the error among them (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.stats.epsilon import EpsilonBound, check_delta
from leakscope.stats.gdp import gdp_epsilon
from leakscope.stats.intervals import check_level

GUESSED_SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares of the canaries that are guessed, where nobody chose one."""
_LARGEST_EPSILON, _LARGEST_MU = 64.0, 64.0
# Candidates per round, and rounds: each narrows the bracket by the candidates less one, to 1e-9 in the end.
_FEW_AT_ONCE, _MANY_AT_ONCE = (5, 18), (65, 6)

TradeOff = Callable[[FloatArray], FloatArray]
"""False positive rates -> the lowest false negative rates that the training allows; elementwise."""


class Guesses(NamedTuple):
    """The outcome of the guessing game.

    Attributes:
        canaries: number of canaries.
        made: number of guesses.
        right: number of guesses that are right.
    """

    canaries: int
    made: int
    right: int


def guesses_of_scores(scores: FloatArray, is_in: BoolArray, n_guesses: int) -> Guesses:
    """Guesses that the canaries with the highest scores are in, and those with the lowest are out.

    Half of the guesses go to each end (of an odd number, one more to the upper end). Ties are broken at
    random, always by the same seed.

    Args:
        scores: float64 (canaries,), higher means in.
        is_in: bool (canaries,), the coins.
        n_guesses: how many guesses to make.
    """
    n = len(scores)
    if len(is_in) != n or not 1 <= n_guesses <= n:
        raise InputError(
            f"guesses={n_guesses}: give 1 to {n}, the number of canaries, and one coin per canary"
        )
    order = np.lexsort((np.random.default_rng(0).random(n), scores))
    n_out, n_in = n_guesses // 2, n_guesses - n_guesses // 2
    right = int((~is_in[order[:n_out]]).sum() + is_in[order[n - n_in :]].sum())
    return Guesses(n, n_guesses, right)


def p_value_of_guesses(guesses: Guesses, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of so many right guesses under an (epsilon, delta)-private training.

    With B binomial over the guesses made, of probability `e^eps / (1 + e^eps)`, and v right ones:
    `P[B >= v] + 2 m delta max over i of P[v > B >= v - i] / i`.
    """
    rate = scipy.special.expit(epsilon)
    if guesses.right == 0:
        return 1.0
    beyond = float(scipy.special.betainc(guesses.right, guesses.made - guesses.right + 1, rate))  # P[B >= v]
    if delta == 0:
        return min(beyond, 1.0)
    from scipy import stats  # slow to import

    # Probabilities rise to the mode and fall beyond: their mean from v - 1 down has its maximum near it.
    spread = np.sqrt(guesses.made * rate * (1 - rate))
    lowest = max(0, int(min(guesses.made * rate - 10 * spread, guesses.right)) - 10)
    just_below = np.cumsum(stats.binom.pmf(np.arange(guesses.right - 1, lowest - 1, -1), guesses.made, rate))
    steepest = float((just_below / np.arange(1, len(just_below) + 1)).max())
    return min(beyond + 2 * guesses.canaries * delta * steepest, 1.0)


def epsilon_of_guesses(guesses: Guesses, *, delta: float = 1e-5, confidence: float = 0.95) -> EpsilonBound:
    """Lower bound on epsilon for any (epsilon, delta)-private training (Steinke et al. 2023)."""
    check_delta(delta)
    check_level(confidence)

    def is_refuted(epsilons: FloatArray) -> BoolArray:
        return np.array([p_value_of_guesses(guesses, e, delta) <= 1 - confidence for e in epsilons])

    bound = _first_possible(is_refuted, _LARGEST_EPSILON, *_FEW_AT_ONCE)
    return EpsilonBound(bound, delta, confidence, "guesses in one run (Steinke et al. 2023)")


def gaussian_epsilon_of_guesses(
    guesses: Guesses, *, delta: float = 1e-5, confidence: float = 0.95
) -> EpsilonBound:
    """Lower bound on epsilon where the trade-off curve is Gaussian (Mahloujifar et al. 2025)."""
    check_delta(delta)
    check_level(confidence)

    def is_refuted(mus: FloatArray) -> BoolArray:
        return _refuted(
            guesses,
            lambda rate: scipy.special.ndtr(scipy.special.ndtri(1 - rate) - mus),
            len(mus),
            confidence,
        )

    epsilon = gdp_epsilon(_first_possible(is_refuted, _LARGEST_MU, *_MANY_AT_ONCE), delta)
    method = "guesses in one run, Gaussian trade-off (Mahloujifar et al. 2025)"
    return EpsilonBound(epsilon, delta, confidence, method)


def refutes_tradeoff(guesses: Guesses, tradeoff: TradeOff, confidence: float = 0.95) -> bool:
    """Whether a training with this trade-off curve is refuted (Mahloujifar et al. 2025)."""
    check_level(confidence)
    return bool(_refuted(guesses, tradeoff, 1, confidence)[0])


def strongest_bound(
    scores: FloatArray,
    is_in: BoolArray,
    bound_of: Callable[..., EpsilonBound] = gaussian_epsilon_of_guesses,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    shares: Sequence[float] = GUESSED_SHARES,
) -> EpsilonBound:
    """The highest bound over several numbers of guesses, which pay for the choice.

    Args:
        scores: float64 (canaries,), higher means in.
        is_in: bool (canaries,), the coins.
        bound_of: one of the bounds of this module.
        delta: in [0, 1).
        confidence: of the result.
        shares: shares of the canaries that are guessed, chosen without looking at the coins.
    """
    numbers = sorted({max(1, round(share * len(scores))) for share in shares})
    each = 1 - (1 - confidence) / len(numbers)
    bounds = [bound_of(guesses_of_scores(scores, is_in, n), delta=delta, confidence=each) for n in numbers]
    best = max(bounds, key=lambda bound: bound.epsilon)
    method = f"{best.method}, Bonferroni over {len(numbers)} numbers of guesses"
    return best._replace(confidence=confidence, method=method)


def _refuted(guesses: Guesses, tradeoff: TradeOff, n_curves: int, confidence: float) -> BoolArray:
    """Whether each of several trade-off curves is refuted; bool (curves,).

    `right` and `wrong` bound, scaled by the number of canaries, how often guesses with exactly so many right
    ones are right and wrong. From v right guesses down to none, the curve limits how far `wrong` can stay
    behind. If even the least possible total exceeds the share of guesses, so many right ones are too
    unlikely.
    """
    error, (n_canaries, n_made, n_right) = 1 - confidence, guesses
    right = np.full(n_curves, error * n_right / n_canaries)
    wrong = np.full(n_curves, error * (n_made - n_right) / n_canaries)
    for i in range(n_right - 1, -1, -1):
        least = np.maximum(wrong, tradeoff(1 - right))
        if np.array_equal(least, wrong):  # nothing changes any more
            break
        right = np.minimum(right + i / (n_made - i) * (least - wrong), 1.0)
        wrong = least
    return np.asarray(right + wrong > n_made / n_canaries)


def _first_possible(
    is_refuted: Callable[[FloatArray], BoolArray], largest: float, n_candidates: int, n_rounds: int
) -> float:
    """The lower end of the values that are not refuted, from below; 0 where 0 is not, within 1e-9 or so."""
    low, high = 0.0, largest
    for _ in range(n_rounds):
        grid = np.linspace(low, high, n_candidates)
        refuted = is_refuted(grid)
        if refuted.all():
            return high
        first = int(np.argmin(refuted))  # the first that is possible
        if first == 0:
            return low
        low, high = float(grid[first - 1]), float(grid[first])
    return low
