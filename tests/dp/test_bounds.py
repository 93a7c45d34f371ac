"""Bounds from scores and coins: what they reach, whose coins they accept, what a budget can refute."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from leakscope.design import make_design
from leakscope.dp.bounds import (
    SHARES,
    ceiling_of_given_size,
    ceiling_of_guesses,
    ceiling_of_rates,
    evidence_of_guesses,
    evidence_of_rates,
    guesses_refute,
    records_to_guess,
)
from leakscope.dp.coins import balanced_records, check_coins, check_references, probability_of_size
from leakscope.dp.power import WANTED_POWER, models_needed, power_of_guesses, power_of_rates
from leakscope.errors import InputError
from leakscope.privacy.claim import Claim
from leakscope.stats.gdp import gdp_epsilon, gdp_mu
from leakscope.stats.one_run import guesses_of_scores
from leakscope.types import Design

GAUSSIAN = Claim(4.0, tradeoff="gaussian")


def coins(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < 0.5


@pytest.mark.parametrize("claim", [Claim(4.0), GAUSSIAN], ids=["any", "gaussian"])
def test_a_perfect_attack_reaches_the_ceiling(claim: Claim) -> None:
    is_in = coins(200)
    evidence = evidence_of_rates(is_in + 0.0, is_in, claim, 0.95)
    assert evidence.epsilon == evidence.ceiling == evidence.growth[-1].epsilon > 2
    many = coins(8, 10)
    guessed = evidence_of_guesses(many + 0.0, many, claim, 0.95)
    assert guessed.epsilon == pytest.approx(guessed.ceiling, abs=1e-8)


@pytest.mark.parametrize("claim", [Claim(4.0), GAUSSIAN], ids=["any", "gaussian"])
def test_scores_that_know_nothing_bound_nothing(claim: Claim) -> None:
    rng, is_in = np.random.default_rng(1), coins(16, 20)
    assert evidence_of_rates(rng.normal(size=16), is_in[:, 0], claim, 0.95).epsilon == 0
    assert evidence_of_guesses(rng.normal(size=is_in.shape), is_in, claim, 0.95).epsilon < 0.3


def test_a_larger_budget_has_a_higher_ceiling_until_delta_counts() -> None:
    claim = Claim(1.0)
    ceilings = [ceiling_of_guesses(n, claim, 0.05) for n in (64, 512, 4096)]
    assert ceilings == sorted(ceilings)
    assert ceiling_of_rates(16, 16, claim, 0.95) < ceiling_of_rates(500, 500, claim, 0.95)
    coarse = Claim(1.0, delta=1e-3)
    assert records_to_guess(16, 1000, coarse, 0.05) < records_to_guess(16, 1000, claim, 0.05)
    assert ceiling_of_guesses(4096, Claim(1.0, delta=0.1), 0.05) < 1


def test_members_of_a_given_number_cost_the_probability_of_that_number() -> None:
    is_in = np.arange(200)[None] % 2 == 0
    free, given = (
        evidence_of_guesses(is_in + 0.0, is_in, Claim(1.0), 0.95, of_given_size=size)
        for size in (False, True)
    )
    assert 0 < given.epsilon < free.epsilon
    assert probability_of_size(is_in) == pytest.approx(0.0563, abs=1e-3)  # sqrt(2 / (pi 200))
    lopsided = np.arange(200)[None] < 190
    assert evidence_of_guesses(lopsided + 0.0, lopsided, Claim(1.0), 0.95, of_given_size=True).epsilon == 0


def test_balanced_records_are_as_many_members_as_others() -> None:
    is_member = np.arange(100) < 80
    chosen = balanced_records(is_member)
    assert len(chosen) == 40
    assert is_member[chosen].sum() == 20


@pytest.mark.parametrize("kind", ["balanced", "pairs"])
def test_designs_without_independent_coins_are_refused(kind: str) -> None:
    with pytest.raises(InputError, match="no independent coins"):
        check_coins(make_design(kind, 8, 50, 0))
    check_coins(make_design("bernoulli", 8, 50, 0))


def nearly_balanced(rng: np.random.Generator) -> np.ndarray:
    is_in = make_design("balanced", 32, 100, 0).in_mask.copy()
    is_in[:, :5] = rng.random((32, 5)) < 0.5  # a few records with coins of their own
    return is_in


def of_one_size(rng: np.random.Generator) -> np.ndarray:
    return rng.random((32, 100)).argsort(axis=1) < 50


def tied(rng: np.random.Generator) -> np.ndarray:
    is_in = rng.random((64, 40)) < 0.5
    is_in[:, 7] = ~is_in[:, 3]
    return is_in


@pytest.mark.parametrize(
    ("drawn", "message"),
    [(nearly_balanced, "more equally"), (of_one_size, "equally many records"), (tied, "is tied to another"),
     (lambda rng: rng.random((32, 100)) < 0.7, "differ more than by chance"),
     (lambda rng: rng.random((32, 100)) < rng.random((32, 1)), "differ more than by chance")],
)  # fmt: skip
def test_coins_that_depend_on_each_other_are_refused(drawn, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_coins(Design(drawn(np.random.default_rng(0))))


def test_fair_coins_are_accepted() -> None:
    for shape in ((2, 30), (8, 8), (16, 16), (64, 20), (40, 300)):
        for seed in range(200):
            is_in = coins(*shape, seed=seed)
            if (is_in.sum(axis=0) == is_in[:, 0].sum()).all():
                continue  # of few models, records may be in equally many by chance
            check_coins(Design(is_in))


def test_references_that_give_the_target_away_are_refused() -> None:
    balanced = make_design("balanced", 16, 200, 0).in_mask
    with pytest.raises(InputError, match="in fewer of them"):
        check_references(balanced[1:], balanced[0])
    fair = make_design("bernoulli", 16, 200, 0).in_mask
    check_references(fair[1:], fair[0])
    check_references(fair[1:], ~fair[0])


def test_the_power_of_one_record_is_what_simulations_have() -> None:
    """200 simulations have a standard error of 0.035; the plan takes the threshold at its mean."""
    n_tested, error, rng = 240, 0.025, np.random.default_rng(0)
    planned = power_of_rates(n_tested, GAUSSIAN, error)
    assert 0.4 < planned < 0.8
    mu, refuted = gdp_mu(8.0, GAUSSIAN.delta), 0
    for _ in range(200):
        is_in = rng.random(n_tested) < 0.5
        scores = rng.normal(size=n_tested) + mu * is_in
        refuted += evidence_of_rates(scores, is_in, GAUSSIAN, 1 - error).epsilon > 4.0
    assert abs(refuted / 200 - planned) < 0.15


def test_the_power_of_guesses_is_what_simulations_have() -> None:
    claim, n_coins, error = Claim(1.0, delta=0.0), 300, 1e-6
    planned, rng = power_of_guesses(n_coins, claim, error), np.random.default_rng(0)
    is_right, refuted = rng.random((200, n_coins)) < special.expit(2.0), 0  # epsilon 2
    for right in is_right:
        is_in = rng.random(n_coins) < 0.5
        scores = np.where(right, is_in, ~is_in) + 0.0
        made = [guesses_of_scores(scores, is_in, round(share * n_coins)) for share in SHARES]
        refuted += any(guesses_refute(guesses, claim, error / len(SHARES)) for guesses in made)
    assert 0.2 < planned < 0.9
    assert abs(refuted / 200 - planned) < 0.15


def test_a_claim_of_more_needs_fewer_models() -> None:
    needed = models_needed(1, GAUSSIAN)
    assert needed is not None
    any_tradeoff = models_needed(1, Claim(4.0))
    assert any_tradeoff is not None
    assert needed < any_tradeoff
    assert power_of_rates(needed - needed // 2, GAUSSIAN, 0.025) >= WANTED_POWER
    assert models_needed(1, Claim(8.0)) is None


def test_mu_and_epsilon_are_inverse() -> None:
    for epsilon in (0.1, 1.0, 8.0):
        assert gdp_epsilon(gdp_mu(epsilon, 1e-5), 1e-5) == pytest.approx(epsilon, rel=1e-9)


def test_more_records_of_a_given_model_never_lower_its_ceiling() -> None:
    ceilings = [ceiling_of_given_size(n, Claim(8.0), 0.05) for n in (50, 100, 200, 400, 800, 1600, 3200)]
    assert (np.diff(ceilings) > -0.002).all()  # numbers of records are tried in steps of a quarter octave
    assert ceilings[0] > 0
