"""Lower bounds on epsilon from scores and coins, as evidence about a claim.

Two tests, each valid for any attack that chose its scores without knowing the coins:

- *rates*: one record, many models. Scores of models are independent, so Clopper-Pearson bounds of the true
  and the false positive rate hold exactly (`leakscope.stats.epsilon`).
- *guesses*: many records, one model or many. All coins are guessed at once, as in one training on all of them
  (`leakscope.stats.one_run`): a coin decides about one record of one model, and models are trained
  independently, so the models together are private with regard to each coin.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray
from leakscope.disclosure import FEWEST_RECORDS
from leakscope.dp.coins import probability_of_size
from leakscope.dp.verdict import Evidence, Growth
from leakscope.privacy.claim import Claim
from leakscope.stats.epsilon import EpsilonBound, epsilon_of_split
from leakscope.stats.gdp import gdp_epsilon_of_split, gdp_mu
from leakscope.stats.one_run import (
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    p_value_of_guesses,
    refutes_tradeoff,
    strongest_bound,
)
from leakscope.stats.roc import SplitScores, split_scores

MOST_COINS = 4096
"""More are not guessed about: at the usual delta they lower the bound, and they take long."""
SHARES = (0.03, 0.1, 0.3, 0.6, 0.9)
"""Shares of the coins that are guessed; never all, because fair coins are rarely half IN and half OUT."""
_LARGEST_CEILING, _SMALLEST_ERROR = 64.0, 1e-12
_FEWEST_MODELS, _MOST_PARTS = 8, 4

NEIGHBOURS = "Two training sets are neighbors if one has one record more than the other."
COINS = "Independent fair coins decided which model has which record, and no score knows the coin it guesses."
GAUSSIAN = (
    "If the claim is true, training reveals no more than a Gaussian mechanism of its epsilon and delta."
)


def evidence_of_rates(scores: FloatArray, is_in: BoolArray, claim: Claim, confidence: float) -> Evidence:
    """One record over many models.

    Args:
        scores: float64 (models,), higher means in; of models that were trained independently.
        is_in: bool (models,), the coins.
        claim: what is claimed.
        confidence: of the bound.
    """

    def part(n: int) -> Growth:
        sides = split_scores(scores[:n], is_in[:n])
        ceiling = ceiling_of_rates(len(sides.members), len(sides.nonmembers), claim, confidence)
        return Growth(1, n, _rates_bound(sides, claim, confidence).epsilon, ceiling)

    *parts, whole = [part(n) for n in _parts(len(scores), _FEWEST_MODELS)]
    return Evidence(
        "one record, many models",
        whole.epsilon,
        confidence,
        whole.ceiling,
        _rates_bound(_perfect(2, 2), claim, confidence).method,
        canaries=1,
        runs=len(scores),
        assumed=_assumed(claim),
        growth=(*parts, whole),
    )


def evidence_of_guesses(
    scores: FloatArray, is_in: BoolArray, claim: Claim, confidence: float, of_given_size: bool = False
) -> Evidence:
    """Many records, of one model or many, guessed about at once.

    Args:
        scores: float64 (models, records), higher means in.
        is_in: bool (models, records), the coins.
        claim: what is claimed.
        confidence: of the bound.
        of_given_size: the members are a random choice of so many records, rather than fair coins.
    """
    n_models, n_records = scores.shape

    def part(n: int) -> Growth:
        rows, columns = (slice(n), slice(None)) if n_models > 1 else (slice(None), slice(n))
        some, coins = scores[rows, columns].ravel(), is_in[rows, columns].ravel()
        error = (1 - confidence) * (probability_of_size(coins) if of_given_size else 1.0)
        n_canaries, runs = (n_records, n) if n_models > 1 else (n, 1)
        if error < _SMALLEST_ERROR:
            return Growth(n_canaries, runs, 0.0, 0.0)
        bound_of = gaussian_epsilon_of_guesses if claim.is_gaussian else epsilon_of_guesses
        bound = strongest_bound(some, coins, bound_of, delta=claim.delta, confidence=1 - error, shares=SHARES)
        return Growth(n_canaries, runs, bound.epsilon, ceiling_of_guesses(coins.size, claim, error))

    n_parts = _parts(n_models, _FEWEST_MODELS) if n_models > 1 else _parts(n_records, FEWEST_RECORDS)
    *parts, whole = [part(n) for n in n_parts]
    return Evidence(
        "many records, " + ("many models" if n_models > 1 else "one model"),
        whole.epsilon,
        confidence,
        whole.ceiling,
        _guesses_method(claim, of_given_size),
        canaries=n_records,
        runs=n_models,
        assumed=_assumed(claim),
        growth=(*parts, whole),
    )


def _assumed(claim: Claim) -> tuple[str, ...]:
    return (NEIGHBOURS, COINS, *([GAUSSIAN] if claim.is_gaussian else []))


def _guesses_method(claim: Claim, of_given_size: bool) -> str:
    is_gaussian = claim.is_gaussian
    paper = "Mahloujifar et al. 2025, Gaussian trade-off" if is_gaussian else "Steinke et al. 2023"
    size = ", given the number of members" if of_given_size else ""
    return f"guesses with abstention ({paper}), Bonferroni over {len(SHARES)} numbers of guesses{size}"


def ceiling_of_rates(n_in: int, n_out: int, claim: Claim, confidence: float) -> float:
    """The bound had every score of an IN model exceeded every score of an OUT model."""
    return _rates_bound(_perfect(n_in, n_out), claim, confidence).epsilon


def ceiling_of_guesses(n_coins: int, claim: Claim, error: float) -> float:
    """The bound had every guess been right."""
    each = error / len(SHARES)
    return _ceiling_of_guesses(n_coins, claim.delta, claim.is_gaussian, each)


def records_to_guess(
    n_models: int, n_records: int, claim: Claim, error: float, of_given_size: bool = False
) -> int:
    """How many records to guess about in each of the models: as many as make the ceiling highest.

    More coins cost something, too: every coin adds delta to the probability of error, and where the number
    of members is given, a larger number is further from fair coins.
    """
    most = max(1, min(n_records, MOST_COINS // n_models))
    numbers = sorted({round(2 ** (k / 4)) for k in range(int(4 * np.log2(most)) + 1)} | {most})

    def ceiling(number: int) -> float:
        return ceiling_of_guesses(
            number * n_models, claim, error * (_half_size(number) if of_given_size else 1)
        )

    return max(numbers, key=ceiling)


def ceiling_of_given_size(n_records: int, claim: Claim, error: float) -> float:
    """The bound for one given model had every guess been right, with as many records as make it highest."""
    n_guessed = records_to_guess(1, n_records, claim, error, of_given_size=True)
    return ceiling_of_guesses(n_guessed, claim, error * _half_size(n_guessed))


def _half_size(n_records: int) -> float:
    return probability_of_size(np.arange(n_records) % 2 == 0)


def guesses_refute(guesses: Guesses, claim: Claim, error: float) -> bool:
    """Whether so many right guesses refute a claim."""
    epsilon = claim.claimed_epsilon()
    if not claim.is_gaussian:
        return p_value_of_guesses(guesses, epsilon, claim.delta) <= error
    mu = gdp_mu(epsilon, claim.delta)
    return refutes_tradeoff(
        guesses, lambda rate: scipy.special.ndtr(scipy.special.ndtri(1 - rate) - mu), 1 - error
    )


def _rates_bound(sides: SplitScores, claim: Claim, confidence: float) -> EpsilonBound:
    if min(map(len, sides)) < 1:
        return EpsilonBound(0.0, claim.delta, confidence, "")
    if claim.is_gaussian:
        return gdp_epsilon_of_split(sides, delta=claim.delta, confidence=confidence)
    return epsilon_of_split(sides, delta=claim.delta, confidence=confidence)


def _perfect(n_in: int, n_out: int) -> SplitScores:
    return SplitScores(np.linspace(1.0, 2.0, n_in), np.linspace(-2.0, -1.0, n_out))


def _parts(n: int, fewest: int) -> list[int]:
    """Parts of n, each twice the one before it, and n itself."""
    return [n >> k for k in range(_MOST_PARTS - 1, 0, -1) if n >> k >= fewest] + [n]


@lru_cache(4096)
def _ceiling_of_guesses(n_coins: int, delta: float, is_gaussian: bool, error: float) -> float:
    n_made = max(1, round(max(SHARES) * n_coins))
    guesses = Guesses(n_coins, n_made, n_made)
    if is_gaussian:
        return gaussian_epsilon_of_guesses(guesses, delta=delta, confidence=1 - error).epsilon
    low, high = 0.0, _LARGEST_CEILING
    if p_value_of_guesses(guesses, low, delta) > error:
        return 0.0
    while high - low > 1e-9:  # the p-value of guesses that are all right rises with epsilon
        middle = (low + high) / 2
        low, high = (middle, high) if p_value_of_guesses(guesses, middle, delta) <= error else (low, middle)
    return low
