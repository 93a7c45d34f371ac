"""Confidence of a target against few references: what is detected, and how often chance is a fault."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.evaluate.hygiene.confidence import check_confidence
from leakscope.evaluate.hygiene.outcome import UsualSpread, prediction_test


def status(n_references: int, spread: float, factor: float, seed: int) -> str:
    """Of a target `factor` times as confident as its references, whose logarithms differ by `spread`."""
    rng = np.random.default_rng([seed, n_references])
    scale = np.exp(spread * rng.standard_normal((1 + n_references, 1)))
    scale[0] *= factor
    in_mask = rng.random((1 + n_references, 300)) < 0.5
    log_odds = scale * (1 + in_mask + rng.normal(size=in_mask.shape))
    return check_confidence(log_odds, in_mask, 0).status


@pytest.mark.parametrize("n_references", [4, 8])
@pytest.mark.parametrize("spread", [0.02, 0.1, 0.2, 0.5])
def test_chance_is_rarely_taken_for_a_fault(n_references: int, spread: float) -> None:
    """At most 5% of matching references; four standard errors of 300 populations are 5% more."""
    alarms = [status(n_references, spread, 1.0, seed) == "failed" for seed in range(300)]
    assert np.mean(alarms) <= 0.05 + 4 * (0.05 * 0.95 / 300) ** 0.5


@pytest.mark.parametrize("factor", [0.4, 2.5])
@pytest.mark.parametrize("n_references", [3, 4, 8])
def test_a_target_far_more_or_less_confident_is_named_with_few_references(
    n_references: int, factor: float
) -> None:
    found = [status(n_references, 0.1, factor, seed) for seed in range(50)]
    assert found.count("failed") >= 45


def test_what_is_usual_counts_as_more_observations() -> None:
    """With infinite weight, the test is a normal one with the usual variance."""
    others = np.array([0.0, 1.0, 2.0])
    test = prediction_test(1 + 1.96 * np.sqrt(4 / 3), others, usual=UsualSpread(1.0, 10**9))
    assert test.p_upper == pytest.approx(0.025, abs=1e-4)
    assert test.standard_error == pytest.approx(np.sqrt(4 / 3))
    t = 4 / np.sqrt(4 / 3)  # with 2 degrees of freedom, Student's distribution has a closed form
    assert prediction_test(5.0, others).p_upper == pytest.approx(0.5 - t / (2 * np.sqrt(2 + t**2)))


def test_a_language_model_that_knows_more_has_a_lower_loss() -> None:
    """Its log-odds are nearer to 0 than those of its references, which does not make it less confident."""
    rng, n_references = np.random.default_rng(0), 6
    in_mask = rng.random((1 + n_references, 300)) < 0.5
    loss = np.where(in_mask, 1.4, 2.0) * rng.uniform(0.9, 1.1, in_mask.shape)
    loss[0] /= 2
    check = check_confidence(loss, in_mask, 0, "loss")
    assert check.status == "failed" and check.numbers["ratio"] == pytest.approx(0.5, rel=0.05)
    assert "has a mean loss 2.0 times as low as the reference models" in check.sentence
