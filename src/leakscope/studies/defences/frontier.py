"""Who dominates whom: utility against leakage, over settings that share records and design."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.stats.estimate import Estimate

EQUAL_UTILITY = 0.01
"""Accuracies, or R², that differ by no more than this are compared as equal."""


def on_frontier(utility: FloatArray, leakage: FloatArray) -> BoolArray:
    """Settings that no other one beats in both; equal ones stay. bool (settings,)."""
    better = (utility[:, None] >= utility) & (leakage[:, None] <= leakage)
    strictly = (utility[:, None] > utility) | (leakage[:, None] < leakage)
    return np.asarray(~(better & strictly).any(axis=0))


def dominating_pairs(
    defences: Sequence[str],
    utility_difference: Callable[[int, int], Estimate],
    leakage_differences: Callable[[int, int], Mapping[str, Estimate]],
) -> list[tuple[int, int]]:
    """Pairs (winner, loser) of settings of different defences, at equal or higher utility.

    The winner leaks less on every set of records, beyond the interval, and its utility is no more than a
    hundredth lower at the lower end of the interval. Differences are called as (winner, loser).
    """
    pairs = []
    for winner in range(len(defences)):
        for loser in range(len(defences)):
            if defences[winner] == defences[loser]:
                continue
            utility, leakage = utility_difference(winner, loser), leakage_differences(winner, loser)
            is_as_good = utility.low is not None and utility.low >= -EQUAL_UTILITY
            if is_as_good and all(one.high is not None and one.high < 0 for one in leakage.values()):
                pairs.append((winner, loser))
    return pairs


def best_at_loss(utility: FloatArray, leakage: FloatArray, utility_loss: float) -> int:
    """The setting with the least leakage whose utility is at most so much below that of the first."""
    affordable = utility >= utility[0] - utility_loss
    return int(np.argmin(np.where(affordable, leakage, np.inf)))
