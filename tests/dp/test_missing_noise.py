"""Updates that show records bare: noise that is missing, in a layer or altogether, and noise that repeats."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.array_types import BoolArray, FloatArray
from leakscope.dp.missing_noise import bare_evidence, bare_updates, lacks_noise
from leakscope.dp.one_run import Placed, audit_scores
from leakscope.dp.verdict import ClaimVerdict
from leakscope.privacy.claim import Claim

NUMBER, STEPS, RATE = 600, 20, 0.25
ONE_LAYER = np.zeros(NUMBER, dtype=np.int64)
LAYERS = np.arange(NUMBER) % 3


def coins_and_draws(seed: int = 0, rate: float = RATE) -> tuple[np.random.Generator, BoolArray, FloatArray]:
    rng = np.random.default_rng(seed)
    is_in = rng.random(NUMBER) < 0.5
    return rng, is_in, ((rng.random((STEPS, NUMBER)) < rate) & is_in).astype(np.float64)


def verdict_of(updates: FloatArray, is_in: BoolArray) -> ClaimVerdict:
    """On epsilon = 8 for any trade-off, which guesses about so few canaries cannot reach."""
    return audit_scores(
        updates.sum(axis=0), is_in, Claim(8.0), white_box=True, updates=updates, placed=Placed(layers=LAYERS)
    )


def test_no_noise_at_all_is_refuted() -> None:
    _, is_in, drawn = coins_and_draws()
    verdict = verdict_of(drawn, is_in)
    assert verdict.status == "refuted"
    assert verdict.evidence[0].method == "canaries seen in 20 of 20 updates, with next to no noise"


@pytest.mark.parametrize("size", [1e-7, 1e-5], ids=["rounding", "traces of noise"])
def test_rounding_does_not_pass_for_noise(size: float) -> None:
    rng, is_in, drawn = coins_and_draws()
    assert verdict_of(drawn + size * rng.standard_normal(drawn.shape), is_in).status == "refuted"


def test_noise_missing_in_one_layer_is_refuted() -> None:
    rng, is_in, drawn = coins_and_draws()
    verdict = verdict_of(drawn + 2 * rng.standard_normal(drawn.shape) * (LAYERS > 0), is_in)
    assert verdict.status == "refuted"
    assert verdict.evidence[0].canaries == NUMBER / 3


def test_noise_missing_in_some_updates_is_refuted() -> None:
    rng, is_in, drawn = coins_and_draws()
    noise = 2 * rng.standard_normal(drawn.shape)
    noise[::4] = 0
    assert verdict_of(drawn + noise, is_in).status == "refuted"


@pytest.mark.parametrize("period", [1, 5])
@pytest.mark.parametrize("scales", [False, True])
def test_noise_that_repeats_is_refuted(period: int, scales: bool) -> None:
    rng, is_in, drawn = coins_and_draws()
    noise = np.resize(2 * rng.standard_normal((period, NUMBER)), drawn.shape)
    per_update = rng.uniform(1, 2, (STEPS, 1)) if scales else 1.0  # such as one over the size of a batch
    verdict = verdict_of(((drawn + noise) * per_update).astype(np.float32).astype(np.float64), is_in)
    assert verdict.status == "refuted"
    assert "pairs of updates with the same noise" in verdict.evidence[0].method


def test_repeated_noise_over_the_same_draws_shows_nobody() -> None:
    rng, is_in, _ = coins_and_draws()
    updates = np.tile(is_in + 2 * rng.standard_normal(NUMBER), (STEPS, 1))
    assert bare_updates(updates, is_in, ONE_LAYER) is None


@pytest.mark.parametrize("noise", [0.02, 1.0, 50.0])
def test_independent_noise_is_never_taken_for_missing(noise: float) -> None:
    for seed in range(20):
        rng, is_in, drawn = coins_and_draws(seed)
        assert bare_updates(drawn + noise * rng.standard_normal(drawn.shape), is_in, LAYERS) is None


def test_coarse_noise_is_noise() -> None:
    """Signs and whole numbers have few values; what counts is that canaries that are out vary."""
    rng, is_in, drawn = coins_and_draws()
    noisy = drawn + 2 * rng.standard_normal(drawn.shape)
    for coarse in (np.sign(noisy), np.round(noisy)):
        assert not lacks_noise(coarse, is_in).any()
        assert bare_updates(coarse, is_in, ONE_LAYER) is None


def test_a_bound_stays_below_the_epsilon_of_rare_noise() -> None:
    """A value is swapped with probability p in each update: epsilon is log((1 - p) / p) per update."""
    for swaps, steps in ((1e-6, 1), (1e-6, 3), (1e-7, 20)):
        truth = steps * float(np.log((1 - swaps) / swaps))
        for seed in range(20):
            rng = np.random.default_rng(seed)
            is_in = rng.random(NUMBER) < 0.5
            updates = ((rng.random((steps, NUMBER)) < swaps) ^ is_in).astype(np.float64)
            bare = bare_updates(updates, is_in, ONE_LAYER)
            assert bare is not None
            assert bare_evidence(bare, Claim(1.0, delta=0.0), 0.95, "").epsilon < truth
