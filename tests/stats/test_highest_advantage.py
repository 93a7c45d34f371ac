"""The upper end for the largest advantage of one target, at any threshold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from leakscope.stats.intervals import highest_advantage
from leakscope.stats.roc import SplitScores, split_scores
from leakscope.stats.roc_summary import best_rates

N_SEEDS = 400


def largest_advantage_of(spread: float) -> float:
    """Of members N(0, spread) among others N(0, 1), who are called below a threshold and above none."""
    at = np.linspace(-5, 5, 100_001)
    return float((norm.cdf(at) - norm.cdf(at / spread)).max())


@pytest.mark.parametrize(("n_members", "n_nonmembers"), [(60, 600), (12, 300), (400, 400)])
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_it_is_seldom_below_the_largest_advantage(n_members: int, n_nonmembers: int, level: float) -> None:
    rng, truth = np.random.default_rng(7), largest_advantage_of(0.3)
    is_member = np.arange(n_members + n_nonmembers) < n_members
    below = 0
    for _ in range(N_SEEDS):
        scores = rng.normal(size=len(is_member)) * np.where(is_member, 0.3, 1.0)
        below += highest_advantage(split_scores(scores, is_member), level) < truth
    allowed = (1 - level) / 2
    assert below / N_SEEDS <= allowed + 3 * np.sqrt(allowed * (1 - allowed) / N_SEEDS)


@pytest.mark.parametrize(
    ("n_members", "n_nonmembers", "truth", "rate"),
    [(500, 500, 0.05, 0.5), (300, 300, 0.03, 0.95), (1000, 30, 0.05, 0.9), (500, 10, 0.05, 0.5)],
)
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_scores_of_two_values_hide_no_advantage(
    n_members: int, n_nonmembers: int, truth: float, rate: float, level: float
) -> None:
    """Where the rates come out equal by chance, calling nobody seems best, and to be without error."""
    rng, below, n_draws = np.random.default_rng(3), 0, 1_000
    for _ in range(n_draws):
        sides = [
            np.sort(rng.random(n) < rate + sign * truth / 2).astype(float)
            for n, sign in ((n_members, 1), (n_nonmembers, -1))
        ]
        below += highest_advantage(SplitScores(*sides), level) < truth
    allowed = (1 - level) / 2
    assert below / n_draws <= allowed + 3 * np.sqrt(allowed * (1 - allowed) / n_draws)


def test_it_exceeds_the_largest_observed_and_comes_near_to_it() -> None:
    rng = np.random.default_rng(0)
    is_member = np.arange(20_000) < 10_000
    sides = split_scores(rng.normal(size=20_000) + is_member, is_member)
    tpr, fpr = best_rates(sides)
    assert tpr - fpr == pytest.approx(2 * norm.cdf(0.5) - 1, abs=0.02)
    assert 0.005 < highest_advantage(sides) - (tpr - fpr) < 0.02


def test_an_attack_that_is_always_right_may_be_wrong_next_time() -> None:
    always = split_scores([0.0, 0.0, 1.0, 1.0], [False, False, True, True])
    assert highest_advantage(always) == 1
    never = split_scores(np.arange(40.0), np.arange(40) < 20)  # members have the lowest scores
    assert best_rates(never) == (0, 0)
    assert 0 < highest_advantage(never) < 0.3
    assert np.isnan(highest_advantage(split_scores([1.0], [True])))
