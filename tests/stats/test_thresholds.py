"""Thresholds from other models: each way of computing them gives what sorting the others' scores gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.array_types import FloatArray
from leakscope.stats import thresholds as module
from leakscope.stats.roc import false_positives_allowed
from leakscope.stats.thresholds import barriers_of_others, barriers_of_scores

BUDGETS = (0.3, 0.1, 0.01, 0.9999, 1.0)


@pytest.mark.parametrize("most_pooled", [0, 1_000_000], ids=["bisected", "pooled"])
@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 40), st.sampled_from([0, 1, 9]))
def test_barriers_are_those_of_sorted_scores(
    most_pooled: int, seed: int, n_targets: int, n: int, decimals: int
) -> None:
    """Ties, infinite scores, and targets without non-members included."""
    rng = np.random.default_rng(seed)
    scores, in_mask = rng.normal(size=(n_targets, n)).round(decimals), rng.random((n_targets, n)) < 0.5
    scores[rng.random(scores.shape) < 0.1] = rng.choice([-np.inf, np.inf, -0.0, 0.0])
    nonmembers = [np.sort(row[~members]) for row, members in zip(scores, in_mask, strict=True)]
    others = [np.concatenate(nonmembers[:own] + nonmembers[own + 1 :]) for own in range(n_targets)]
    highest = np.array([[_highest(scores, budget) for budget in BUDGETS] for scores in others])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_MOST_POOLED", most_pooled)
        both = barriers_of_others(nonmembers, BUDGETS), barriers_of_scores(scores, in_mask, BUDGETS)
    for barriers in both:
        np.testing.assert_array_equal(barriers.highest, highest)
        for own, at, tied in zip(others, barriers.highest, barriers.tied, strict=True):
            for budget, barrier, share in zip(BUDGETS, at, tied, strict=True):
                n_called = (own > barrier).sum() + share * (own == barrier).sum()
                assert n_called == pytest.approx(false_positives_allowed(budget, len(own)))


def _highest(others: FloatArray, budget: float) -> float:
    """The highest of these scores that must not be called a member."""
    n_allowed = false_positives_allowed(budget, len(others))
    return float(np.sort(others)[::-1][n_allowed]) if n_allowed < len(others) else -np.inf


def test_scores_without_ties_need_no_lots() -> None:
    rng = np.random.default_rng(0)
    scores, in_mask = rng.normal(size=(5, 200)), rng.random((5, 200)) < 0.5
    barriers = barriers_of_scores(scores, in_mask, (0.1,))
    assert not barriers.tied.any()
    for target in range(5):
        others = np.arange(5) != target
        exceeding = scores[others][~in_mask[others]] > barriers.highest[target, 0]
        assert 0.08 < exceeding.mean() <= 0.1
