"""From scores to a verdict: bounds share the error, and none says more than its assumption allows."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.dp.one_run import audit_scores
from leakscope.dp.recipe import audit_recipe
from leakscope.dp.seen_settings import Seen, Values, lowest_settings
from leakscope.errors import InputError
from leakscope.privacy.accounting import epsilon_of_steps
from leakscope.privacy.claim import Claim
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Recipe

DELTA = 1e-5
OF_SETTINGS = Claim(noise_multiplier=1.0, sampling_rate=1.0, steps=1)


def updates(rate: float, noise: float, steps: int, number: int = 600, seed: int = 0) -> Values:
    rng = np.random.default_rng(seed)
    is_in = rng.random(number) < 0.5
    drawn = (rng.random((steps, number)) < rate) & is_in
    return Values(drawn + noise * rng.standard_normal((steps, number)), is_in)


@pytest.mark.slow
def test_the_bounds_share_the_error_of_the_claim() -> None:
    values = updates(1.0, 1.0, 1)
    verdict = audit_scores(values.values[0], values.is_in, Claim(4.0), white_box=True, updates=values.values)
    assert len(verdict.evidence) == 4
    assert sum(1 - e.confidence for e in verdict.evidence) == pytest.approx(0.05)
    assert len(audit_scores(values.values[0], values.is_in, Claim(4.0)).evidence) == 1
    assert len(audit_scores(values.values[0], values.is_in, OF_SETTINGS).evidence) == 2


def test_scores_that_are_not_gaussian_give_no_gaussian_bound() -> None:
    rng = np.random.default_rng(0)
    is_in = rng.random(600) < 0.5
    verdict = audit_scores(is_in + rng.standard_t(2, 600), is_in, Claim(4.0), white_box=True)
    methods = [e.method for e in verdict.evidence if "white-box" in e.method]
    assert methods[0].startswith("Gaussian white-box scores, difference of their means; not used: ")


def test_few_canaries_cannot_test_a_large_epsilon() -> None:
    rng = np.random.default_rng(0)
    is_in = rng.random(50) < 0.5
    claim = Claim(noise_multiplier=0.6, sampling_rate=1.0, steps=1)
    verdict = audit_scores(is_in * 9.0, is_in, claim)
    assert verdict.status == "not testable"
    n_needed = int(verdict.needed.split()[1].replace(",", ""))
    assert verdict.needed.startswith(f"With {n_needed:,} canaries, one run could refute epsilon = 8 if every")
    is_in = rng.random(n_needed) < 0.5
    is_in[: n_needed // 2], is_in[n_needed // 2 :] = True, False  # so that every guess can be right
    assert audit_scores(is_in * 9.0, is_in, claim).status == "refuted"


@pytest.mark.parametrize("white_box", [True, False])
def test_laplace_noise_that_is_private_as_claimed_is_not_refuted(white_box: bool) -> None:
    rng = np.random.default_rng(0)
    is_in = rng.random(2000) < 0.5
    scores = is_in + rng.laplace(size=2000)  # epsilon = 1, but its best Gaussian trade-off is far beyond
    verdict = audit_scores(scores, is_in, Claim(1.0), white_box=white_box)
    assert verdict.status == "consistent"
    assert audit_scores(scores, is_in, Claim(0.2), white_box=white_box).status == "refuted"


@pytest.mark.parametrize(
    ("scores", "coins"),
    [
        (np.zeros(3), np.zeros(2, dtype=bool)),
        (np.zeros(3), np.zeros(3)),
        (np.array([1.0, np.nan]), np.array([True, False])),
    ],
)
def test_scores_and_coins_have_to_fit(scores: np.ndarray, coins: np.ndarray) -> None:
    with pytest.raises(InputError):
        audit_scores(scores, coins, Claim(1.0))


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.2, 1.0, 25), (1.0, 1.0, 1), (0.02, 0.5, 50)])
def test_settings_of_dp_sgd_are_seen_from_below(rate: float, noise: float, steps: int) -> None:
    truth = epsilon_of_steps(noise, DELTA, rate, steps)
    seen = lowest_settings(updates(rate, noise, steps), DELTA, 0.95)
    assert isinstance(seen, Seen)
    assert truth / 2 < seen.epsilon < truth


@pytest.mark.slow
def test_a_larger_sampling_rate_than_claimed_is_refuted() -> None:
    values = updates(0.3, 1.0, 25)
    claim = Claim(noise_multiplier=1.0, sampling_rate=0.1, steps=25)
    verdict = audit_scores(
        values.values.sum(axis=0), values.is_in, claim, white_box=True, updates=values.values
    )
    assert verdict.status == "refuted"
    assert "settings of DP-SGD" in verdict.evidence[0].method


def test_noise_of_changing_spread_is_not_accounted_for() -> None:
    values = updates(0.2, 1.0, 20)
    changing = Values(values.values * np.linspace(0.2, 2, 20)[:, None], values.is_in)
    reason = lowest_settings(changing, DELTA, 0.95)
    assert isinstance(reason, str) and reason.startswith("the noise is not independent and Gaussian")


def test_correlated_noise_is_not_accounted_for_as_independent() -> None:
    rng = np.random.default_rng(0)
    is_in = rng.random(600) < 0.5
    walk = rng.standard_normal((20, 600))
    reason = lowest_settings(Values(np.diff(walk, axis=0) + 0.1 * is_in, is_in), DELTA, 0.95)
    assert isinstance(reason, str) and reason.startswith("the noise is not independent and Gaussian")


def test_canaries_that_are_always_or_never_drawn_are_not_accounted_for() -> None:
    values = updates(0.0, 0.1, 20)
    always = values.values + (np.arange(600) % 5 == 0) * values.is_in
    reason = lowest_settings(Values(always, values.is_in), DELTA, 0.95)
    assert isinstance(reason, str) and reason.startswith("draws are not independent")


@pytest.mark.parametrize("trainer", ["auto", "serial"])
def test_the_claim_of_a_recipe_is_consistent_and_its_bound_comes_close(trainer: str) -> None:
    privacy = Privacy(epsilon=4.0)
    recipe = Recipe(optimizer="sgd", lr=1.0, batch_size=1000, epochs=1, privacy=privacy, trainer=trainer)  # type: ignore[arg-type]
    verdict = audit_recipe(recipe, number=400)
    assert verdict.status == "consistent"
    assert verdict.epsilon == pytest.approx(4.0, abs=0.01)
    assert verdict.evidence[0].epsilon > 1.5


def test_a_recipe_without_privacy_claims_nothing() -> None:
    with pytest.raises(InputError, match="no claim"):
        audit_recipe(Recipe())
