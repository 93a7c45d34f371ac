"""Thresholds from other models: two ways of computing them, and what they promise."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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


def test_non_members_of_other_targets_stay_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    scores, in_mask = rng.normal(size=(5, 200)), rng.random((5, 200)) < 0.5
    highest = highest_of_others(scores, in_mask, (0.1,))[0]
    for target in range(5):
        others = np.arange(5) != target
        exceeding = scores[others][~in_mask[others]] > highest[target]
        assert 0.08 < exceeding.mean() <= 0.1
