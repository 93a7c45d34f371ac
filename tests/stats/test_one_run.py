"""Bounds on epsilon from one run, against the formulas computed another way, and against truth."""

from fractions import Fraction
from math import comb, log

import mpmath
import numpy as np
import pytest
from scipy import special

from leakscope.errors import InputError
from leakscope.stats.gdp import gdp_delta
from leakscope.stats.one_run import (
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    guesses_of_scores,
    p_value_of_guesses,
    refutes_tradeoff,
    strongest_bound,
)

DELTA = 1e-5


def exact_p_value(guesses: Guesses, rate: Fraction, delta: Fraction) -> Fraction:
    """The formula of Steinke et al. in rational arithmetic."""
    n, v = guesses.made, guesses.right

    def probability(k: int) -> Fraction:
        return comb(n, k) * rate**k * (1 - rate) ** (n - k)

    beyond = sum(probability(k) for k in range(v, n + 1))
    steepest = max(
        (sum(probability(k) for k in range(max(v - i, 0), v)) / i for i in range(1, guesses.canaries + 1)),
        default=Fraction(0),
    )
    return min(beyond + 2 * guesses.canaries * delta * steepest, Fraction(1))


@pytest.mark.parametrize(
    "guesses", [Guesses(40, 40, 31), Guesses(60, 20, 17), Guesses(30, 10, 10), Guesses(20, 7, 1)]
)
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 1000), Fraction(1, 100_000)])
def test_p_value_equals_the_formula_in_rational_arithmetic(guesses, delta):
    wanted = exact_p_value(guesses, Fraction(3, 4), delta)
    assert p_value_of_guesses(guesses, log(3), float(delta)) == pytest.approx(float(wanted), rel=1e-10)


@pytest.mark.parametrize(("n_guesses", "published"), [(100, 3.49), (1000, 5.81)])
def test_the_ceiling_when_all_guesses_are_right(n_guesses, published):
    bound = epsilon_of_guesses(Guesses(n_guesses, n_guesses, n_guesses), delta=0.0)
    assert bound.epsilon == pytest.approx(special.logit(0.05 ** (1 / n_guesses)), abs=1e-6)
    assert bound.epsilon == pytest.approx(published, abs=0.005)


@pytest.mark.parametrize("guesses", [Guesses(1000, 100, 80), Guesses(1000, 1000, 640), Guesses(500, 50, 50)])
def test_the_p_value_at_the_bound_is_the_error(guesses):
    bound = epsilon_of_guesses(guesses, delta=DELTA)
    assert p_value_of_guesses(guesses, bound.epsilon, DELTA) == pytest.approx(0.05, abs=1e-6)


def reference_mu(guesses: Guesses, error: float) -> mpmath.mpf:
    """The smallest mu that the recursion of Mahloujifar et al. does not reject, in mpmath."""
    m, made, right = guesses

    def normal_cdf(x):
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    def normal_quantile(p):
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)

    def is_rejected(mu):
        r, h = mpmath.mpf(error) * right / m, mpmath.mpf(error) * (made - right) / m
        for i in range(right - 1, -1, -1):
            larger = max(h, normal_cdf(normal_quantile(r) - mu))
            r, h = r + mpmath.mpf(i) / (made - i) * (larger - h), larger
            if r + h > mpmath.mpf(made) / m:
                return True
        return False

    low, high = mpmath.mpf(0), mpmath.mpf(16)
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if is_rejected(middle) else (low, middle)
    return low


@pytest.mark.parametrize("guesses", [Guesses(100, 40, 34), Guesses(200, 30, 29), Guesses(60, 60, 45)])
def test_gaussian_bound_equals_the_recursion_in_high_precision(guesses):
    mu = float(reference_mu(guesses, 0.05))
    bound = gaussian_epsilon_of_guesses(guesses, delta=DELTA)
    assert gdp_delta(mu, bound.epsilon) == pytest.approx(DELTA, rel=1e-4)
    assert not refutes_tradeoff(guesses, lambda rate: special.ndtr(special.ndtri(1 - rate) - (mu + 1e-6)))
    assert refutes_tradeoff(guesses, lambda rate: special.ndtr(special.ndtri(1 - rate) - (mu - 1e-6)))


def test_a_claim_of_epsilon_and_delta_is_refuted_by_too_many_right_guesses_only():
    def claim(rate):  # the trade-off curve of (1, DELTA)
        either_side = 1 - DELTA - np.e * rate, (1 - DELTA - rate) / np.e
        return np.maximum(np.maximum(*either_side), 0.0)

    assert refutes_tradeoff(Guesses(1000, 200, 195), claim)
    assert not refutes_tradeoff(Guesses(1000, 200, 140), claim)


def test_guesses_go_to_both_ends_of_the_scores():
    scores, coins = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0]), np.array([1, 1, 0, 1, 0, 0], dtype=bool)
    assert guesses_of_scores(scores, coins, 4) == Guesses(6, 4, 4)
    assert guesses_of_scores(scores, coins, 6) == Guesses(6, 6, 4)
    assert guesses_of_scores(-scores, coins, 4) == Guesses(6, 4, 0)


@pytest.mark.parametrize("n_guesses", [0, 7])
def test_impossible_numbers_of_guesses_are_refused(n_guesses):
    with pytest.raises(InputError, match="guesses="):
        guesses_of_scores(np.arange(6.0), np.ones(6, dtype=bool), n_guesses)


@pytest.mark.parametrize("bound_of", [epsilon_of_guesses, gaussian_epsilon_of_guesses])
def test_scores_that_say_nothing_give_no_bound(bound_of):
    rng = np.random.default_rng(0)
    bounds = [strongest_bound(np.zeros(200), rng.random(200) < 0.5, bound_of).epsilon for _ in range(20)]
    assert np.mean(np.array(bounds) > 0) <= 0.15  # 0.05 on average; above 3 of 20 by chance in 1.6%


@pytest.mark.slow
@pytest.mark.parametrize("bound_of", [epsilon_of_guesses, gaussian_epsilon_of_guesses])
def test_bounds_of_a_gaussian_mechanism_hold(bound_of):
    mu, truth, rng = 0.9246, 4.0, np.random.default_rng(7)
    assert gdp_delta(mu, truth) == pytest.approx(DELTA, rel=0.01)
    coins = rng.random((100, 500)) < 0.5
    scores = rng.normal(size=coins.shape) + mu * coins
    bounds = [strongest_bound(*pair, bound_of).epsilon for pair in zip(scores, coins, strict=True)]
    assert np.mean(np.array(bounds) > truth) <= 0.05
    assert np.median(bounds) > 0.8
