"""Thresholds from other models: each way of computing them gives what sorting the others' scores gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.array_types import FloatArray
from leakscope.stats import thresholds as module
from leakscope.stats.roc import false_positives_allowed
from leakscope.stats.thresholds import highest_of_others, thresholds_of_others

BUDGETS = (0.3, 0.1, 0.01, 0.9999, 1.0)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 40), st.sampled_from([0, 1, 9]))
def test_pooled_thresholds_call_the_same_records(seed: int, n_targets: int, n: int, decimals: int) -> None:
    rng = np.random.default_rng(seed)
    scores, in_mask = rng.normal(size=(n_targets, n)).round(decimals), rng.random((n_targets, n)) < 0.5
    nonmembers = [np.sort(row[~members]) for row, members in zip(scores, in_mask, strict=True)]
    thresholds = thresholds_of_others(nonmembers, BUDGETS)
    highest = highest_of_others(scores, in_mask, BUDGETS)
    called = scores >= np.nan_to_num(thresholds.T, nan=np.inf)[:, :, None]
    assert (called == (scores > highest[:, :, None])).all()


@pytest.mark.parametrize("most_pooled", [0, 1_000_000], ids=["bisected", "pooled"])
@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 40), st.sampled_from([0, 1, 9]))
def test_thresholds_are_those_of_sorted_scores(
    most_pooled: int, seed: int, n_targets: int, n: int, decimals: int
) -> None:
    """Ties, infinite scores, and targets without non-members included."""
    rng = np.random.default_rng(seed)
    scores, in_mask = rng.normal(size=(n_targets, n)).round(decimals), rng.random((n_targets, n)) < 0.5
    scores[rng.random(scores.shape) < 0.1] = rng.choice([-np.inf, np.inf, -0.0, 0.0])
    nonmembers = [np.sort(row[~members]) for row, members in zip(scores, in_mask, strict=True)]
    others = [np.concatenate(nonmembers[:own] + nonmembers[own + 1 :]) for own in range(n_targets)]
    highest = np.array([[_highest(scores, budget) for budget in BUDGETS] for scores in others])
    np.testing.assert_array_equal(highest_of_others(scores, in_mask, BUDGETS).T, highest)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_MOST_POOLED", most_pooled)
        thresholds = thresholds_of_others(nonmembers, BUDGETS)
    wanted = np.array([[_threshold(scores, budget) for budget in BUDGETS] for scores in others])
    np.testing.assert_array_equal(thresholds, wanted)


def _highest(others: FloatArray, budget: float) -> float:
    """The highest of these scores that must not be called a member."""
    n_allowed = false_positives_allowed(budget, len(others))
    return float(np.sort(others)[::-1][n_allowed]) if n_allowed < len(others) else -np.inf


def _threshold(others: FloatArray, budget: float) -> float:
    """The lowest threshold above it; -inf where all may be called, NaN where no number is high enough."""
    if false_positives_allowed(budget, len(others)) >= len(others):
        return -np.inf
    highest = _highest(others, budget)
    return np.nan if highest == np.inf else float(np.nextafter(highest, np.inf))


def test_non_members_of_other_targets_stay_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    scores, in_mask = rng.normal(size=(5, 200)), rng.random((5, 200)) < 0.5
    highest = highest_of_others(scores, in_mask, (0.1,))[0]
    for target in range(5):
        others = np.arange(5) != target
        exceeding = scores[others][~in_mask[others]] > highest[target]
        assert 0.08 < exceeding.mean() <= 0.1
