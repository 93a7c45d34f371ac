"""Batches that are dealt out are not taken for Poisson samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import leakscope
from leakscope.array_types import BoolArray
from leakscope.dp.draws import REJECT_BELOW, SeenDraws, _epsilon_of_patterns, _epsilon_of_union, _p_of_repeats
from leakscope.dp.one_run import Placed, audit_scores
from leakscope.dp.verdict import ClaimVerdict
from leakscope.privacy.claim import Claim
from leakscope.stats.gdp import gdp_epsilon
from tests.dp.loops import private_gradients, records, small_net

STEPS, N_BATCHES, NOISE = 40, 10, 0.8
CLAIM = Claim(noise_multiplier=NOISE, sampling_rate=1 / N_BATCHES, steps=STEPS)
DELTA = CLAIM.delta


def poisson(rng: np.random.Generator, number: int) -> BoolArray:
    return rng.random((STEPS, number)) < 1 / N_BATCHES


def dealt(rng: np.random.Generator, number: int, n_epochs_per_order: int) -> BoolArray:
    """Batches from orders of the records that last for some epochs."""
    drawn = np.zeros((STEPS, number), dtype=np.bool_)
    for step in range(STEPS):
        if step % (N_BATCHES * n_epochs_per_order) == 0:
            order = rng.permutation(number)
        drawn[step, order[step % N_BATCHES :: N_BATCHES]] = True
    return drawn


def verdict_of(drawn: BoolArray, claim: Claim, seed: int = 0) -> ClaimVerdict:
    rng = np.random.default_rng(seed)
    number = drawn.shape[1]
    is_in = rng.random(number) < 0.5
    drawn = drawn & is_in
    updates = drawn + NOISE * rng.standard_normal(drawn.shape)
    return audit_scores(
        updates.sum(axis=0),
        is_in,
        claim,
        white_box=True,
        updates=updates,
        placed=Placed(drawn),
        name="a test",
    )


def test_one_order_dealt_again_and_again_refutes_a_claim_of_poisson_sampling() -> None:
    drawn = dealt(np.random.default_rng(0), 600, n_epochs_per_order=STEPS)
    verdict = verdict_of(drawn, CLAIM)
    assert verdict.status == "refuted"
    assert "one of 10 patterns of updates" in verdict.evidence[0].method
    without_sampling = gdp_epsilon(np.sqrt(STEPS / N_BATCHES) / NOISE, DELTA)
    assert CLAIM.claimed_epsilon() < verdict.evidence[0].epsilon < without_sampling
    of_truth = verdict_of(drawn, Claim(float(without_sampling)))
    assert of_truth.status == "consistent"
    assert "Batches are not Poisson samples: canaries are drawn more evenly" in str(of_truth)


def test_a_new_order_in_each_epoch_leaves_a_claim_of_poisson_sampling_unsupported() -> None:
    drawn = dealt(np.random.default_rng(0), 600, n_epochs_per_order=1)
    verdict = verdict_of(drawn, CLAIM)
    assert verdict.status == "unsupported"
    assert "The claim of epsilon = 7.36 at delta = 1e-05 is unsupported" in str(verdict)
    assert "Draw each record independently in each update" in str(verdict)
    assert verdict_of(drawn, Claim(CLAIM.claimed_epsilon())).status == "consistent"


def test_poisson_samples_are_rarely_taken_for_others() -> None:
    rng = np.random.default_rng(0)
    p = [2 * min(_p_of_repeats(poisson(rng, 200))) for _ in range(1000)]
    assert np.mean(np.array(p) < 0.01) <= 0.015
    assert np.mean(np.array(p) < REJECT_BELOW) <= 0.003


def test_records_that_are_drawn_more_often_than_others_are_seen() -> None:
    rng = np.random.default_rng(0)
    rates = np.where(np.arange(300) % 2 == 0, 0.02, 0.18)
    assert verdict_of(rng.random((STEPS, 300)) < rates, CLAIM).status == "unsupported"


def test_the_bound_of_one_pattern_is_that_of_the_gaussian_mechanism() -> None:
    for mu in (0.5, 1.0, 2.5):
        bound, truth = _epsilon_of_union(mu, 1.0, 1, DELTA), gdp_epsilon(mu, DELTA)
        assert 0.8 * truth < bound < truth
    assert _epsilon_of_union(2.5, 1.0, 10, DELTA) == pytest.approx(
        _epsilon_of_union(2.5, 1.0, 1, DELTA) - np.log(10)
    )


def test_patterns_of_independent_draws_give_no_more_than_their_sampling() -> None:
    """The bound is valid for Poisson samples too, where it is not needed."""
    drawn = poisson(np.random.default_rng(0), 400)
    assert _epsilon_of_patterns(drawn, 1 / NOISE, DELTA, 0.01)[0] < CLAIM.claimed_epsilon()


def test_draws_are_counted_for_the_update_that_they_go_into() -> None:
    seen = SeenDraws(4)
    seen.notice(0, np.array([1]))
    seen.notice(0, np.array([2]))
    seen.notice(2, np.array([3]))
    assert seen.of_updates(2).tolist() == [[False, True, True, False], [False] * 4]


def test_canaries_in_a_loop_that_deals_out_batches_see_it() -> None:
    torch.manual_seed(0)
    canaries = leakscope.dp.Canaries(300, seed=3)
    x, y = canaries.plant(*records())
    model = small_net()
    canaries.attach(model)
    order = torch.randperm(len(x))
    for step in range(20):
        batch = order[step % N_BATCHES :: N_BATCHES]
        gradients = private_gradients(model, x[batch], y[batch], NOISE)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter -= 0.1 * gradients[name]
    claim = Claim(noise_multiplier=NOISE, sampling_rate=1 / N_BATCHES, steps=20)
    assert canaries.audit(claim).status in ("unsupported", "refuted")
