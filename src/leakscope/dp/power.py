"""How large a budget: what a test can refute, before anything is trained.

The budget is judged by a training whose true epsilon is twice the claimed one, attacked as well as possible:
the attacker sees a Gaussian mechanism of that epsilon (at delta 0: randomized response). Real attacks see
less, so the numbers here are the least that is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy

from leakscope.array_types import FloatArray
from leakscope.dp.bounds import MOST_COINS, SHARES, guesses_refute, records_to_guess
from leakscope.dp.coins import probability_of_size
from leakscope.privacy.claim import Claim
from leakscope.stats.epsilon import THRESHOLDS, barrier_rates, geometric_ranks
from leakscope.stats.gdp import GDP_THRESHOLDS, even_ranks, gdp_mu
from leakscope.stats.one_run import Guesses

FACTOR = 2.0
"""The true epsilon, in units of the claimed one, that a budget is judged by."""
WANTED_POWER = 0.8
_MOST_MODELS = 1 << 20


@lru_cache(64)
def power_of_population(n_models: int, n_records: int, claim: Claim) -> float:
    """The probability that a population refutes a claim that is off by `FACTOR`.

    Args:
        n_models: all models; half of them are for choosing the records.
        n_records: canaries, or else all records.
        claim: what is claimed.
    """
    n_tested, error = n_models - n_models // 2, (1 - claim.confidence) / 2
    by_rates = power_of_rates(n_tested, claim, error)
    if by_rates >= WANTED_POWER:
        return by_rates
    n_guessed = min(n_tested, MOST_COINS)
    n_coins = n_guessed * records_to_guess(n_guessed, n_records, claim, error)
    return max(by_rates, power_of_guesses(n_coins, claim, error))


@lru_cache(64)
def power_of_one_model(n_records: int, claim: Claim) -> float:
    """The same for one given model, half of whose records are members by a random choice."""
    n_guessed = records_to_guess(1, n_records, claim, 1 - claim.confidence, of_given_size=True)
    return _power_of_given_size(n_guessed, claim)


@lru_cache(64)
def models_needed(n_records: int, claim: Claim) -> int | None:
    """The smallest population, an even number, with the power `WANTED_POWER`; None: more than a million."""
    return _smallest(8, _MOST_MODELS, lambda n: power_of_population(n, n_records, claim))


@lru_cache(64)
def records_needed(claim: Claim) -> int | None:
    """The fewest records of one model, half of them members, with `WANTED_POWER`; None: no number has it."""
    return _smallest(8, MOST_COINS, lambda n: _power_of_given_size(n, claim))


def power_of_rates(n_models: int, claim: Claim, error: float) -> float:
    """One record over so many models; half of them have it."""
    from scipy import stats  # slow to import

    n_each = n_models // 2
    if n_each < 1:
        return 0.0
    is_gaussian = claim.is_gaussian
    n_thresholds, ranks_of = (GDP_THRESHOLDS, even_ranks) if is_gaussian else (THRESHOLDS, geometric_ranks)
    n_false, fpr_high = barrier_rates(n_each, n_thresholds // 2, error / n_thresholds, ranks_of)
    allowed = _allowed_tpr(fpr_high, claim)
    # As many as a true positive rate that the claim allows would rarely give: Clopper-Pearson's condition.
    needed = np.where(allowed < 1, stats.binom.isf(error / n_thresholds / 2, n_each, allowed) + 1, n_each + 1)
    tpr = _best_tpr((n_false + 1) / (n_each + 1), claim)
    return float(stats.binom.sf(needed - 1, n_each, tpr).max())


@lru_cache(1024)
def power_of_guesses(n_coins: int, claim: Claim, error: float) -> float:
    """So many fair coins, guessed with abstention."""
    each = error / len(SHARES)
    return max(_power_of_share(n_coins, share, claim, each) for share in SHARES)


def _power_of_given_size(n_records: int, claim: Claim) -> float:
    half = np.arange(n_records) % 2 == 0
    return power_of_guesses(n_records, claim, (1 - claim.confidence) * probability_of_size(half))


def _power_of_share(n_coins: int, share: float, claim: Claim, error: float) -> float:
    n_made = max(1, round(share * n_coins))
    if not guesses_refute(Guesses(n_coins, n_made, n_made), claim, error):
        return 0.0
    low, high = 0, n_made  # so many right guesses do not refute the claim, and so many do
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = guesses_refute(Guesses(n_coins, n_made, middle), claim, error)
        low, high = (low, middle) if is_enough else (middle, high)
    from scipy import stats  # slow to import

    return float(stats.binom.sf(high - 1, n_made, _best_accuracy(n_made / n_coins, claim)))


def _allowed_tpr(fpr: FloatArray, claim: Claim) -> FloatArray:
    """The highest true positive rates that the claim allows."""
    epsilon, delta = claim.claimed_epsilon(), claim.delta
    if claim.is_gaussian:
        return np.asarray(scipy.special.ndtr(gdp_mu(epsilon, delta) + scipy.special.ndtri(fpr)))
    ends = np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * np.maximum(1 - fpr - delta, 0)
    return np.asarray(np.minimum(*ends))


def _best_tpr(fpr: FloatArray, claim: Claim) -> FloatArray:
    """The true positive rates of the best attack on a training whose epsilon is off by `FACTOR`."""
    epsilon = FACTOR * claim.claimed_epsilon()
    if claim.delta == 0:
        return np.asarray(np.minimum(np.exp(epsilon) * fpr, 1 - np.exp(-epsilon) * (1 - fpr)))
    return np.asarray(scipy.special.ndtr(gdp_mu(epsilon, claim.delta) + scipy.special.ndtri(fpr)))


def _best_accuracy(share: float, claim: Claim) -> float:
    """The share of right guesses of that attack, where it guesses about the clearest `share` of the coins."""
    from scipy import optimize  # slow to import

    epsilon = FACTOR * claim.claimed_epsilon()
    if claim.delta == 0:
        return float(scipy.special.expit(epsilon))
    half = gdp_mu(epsilon, claim.delta) / 2
    if share >= 1:  # of a single coin
        return float(scipy.special.ndtr(half))

    def beyond(t: float) -> float:
        return float(scipy.special.ndtr(half - t) + scipy.special.ndtr(-half - t) - share)

    at = optimize.brentq(beyond, 0.0, half + 40.0)
    return float(scipy.special.ndtr(half - at) / share)


def _smallest(least: int, most: int, power_at: Callable[[int], float]) -> int | None:
    """The smallest even number with the wanted power, within a tenth; None where none up to `most` has it."""
    high = least
    while power_at(high) < WANTED_POWER:
        high *= 2
        if high > most:
            return None
    low = high // 2 if high > least else high
    while high - low > max(2, high // 10):
        middle = (low + high) // 4 * 2
        low, high = (low, middle) if power_at(middle) >= WANTED_POWER else (middle, high)
    return high
