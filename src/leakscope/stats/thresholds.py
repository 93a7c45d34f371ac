"""Thresholds that an attacker can choose: from the non-members of models other than the target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.stats.roc import false_positives_allowed


def thresholds_of_others(nonmembers: Sequence[FloatArray], fpr_budgets: Sequence[float]) -> FloatArray:
    """For each target, the lowest thresholds at which the other targets' non-members stay within the budgets.

    Computes the k-th largest of many sorted arrays by bisection over all floating-point numbers: exact, and
    without pooling the arrays.

    Args:
        nonmembers: one float64 array per target, ascending.
        fpr_budgets: shares of the other targets' non-members that may reach the threshold.

    Returns:
        float64 (targets, budgets).
    """
    n_own = np.array([len(own) for own in nonmembers])
    n_others = (n_own.sum() - n_own)[:, None]  # (targets, 1)
    allowed = [[false_positives_allowed(b, int(n)) for b in fpr_budgets] for n in n_others[:, 0]]
    n_out = (
        np.array(allowed).reshape(len(nonmembers), len(fpr_budgets)) + 1
    )  # rank of the first that may not reach it
    low, high = (np.full(n_out.shape, _ordinal(end)) for end in (np.array(-np.inf), np.array(np.inf)))
    while (low < high).any():  # the largest number that at least `n_out` of the others reach
        middle = low + (high - low + np.uint64(1)) // np.uint64(2)
        value = _of_ordinal(middle)
        n_reaching = np.stack([_n_reaching(own, value.reshape(-1)) for own in nonmembers])
        n_reaching = n_reaching.reshape(len(nonmembers), *n_out.shape)
        own = n_reaching[np.arange(len(nonmembers)), np.arange(len(nonmembers))]
        enough = n_reaching.sum(axis=0) - own >= n_out
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - np.uint64(1))
    last = _of_ordinal(low)
    above = np.where(
        np.isinf(last) & (last > 0), np.nan, np.nextafter(last, np.inf)
    )  # NaN: no score reaches it
    return np.where(n_out > n_others, -np.inf, above)


def highest_of_others(scores: FloatArray, in_mask: BoolArray, fpr_budgets: Sequence[float]) -> FloatArray:
    """For each target, the highest score of the other targets' non-members that must not be called a member.

    The same as `thresholds_of_others`, for scores that may be pooled: faster, and more memory.

    Args:
        scores: float64 (targets, records).
        in_mask: bool (targets, records).
        fpr_budgets: shares of the other targets' non-members that may exceed the score.

    Returns:
        float64 (budgets, targets); minus infinity where no other non-member is too many.
    """
    owner, record = np.nonzero(~in_mask)
    pooled = scores[owner, record]
    descending = np.argsort(-pooled)
    owner, pooled = owner[descending], np.append(pooled[descending], -np.inf)
    highest = np.empty((len(fpr_budgets), len(scores)))
    for target in range(len(scores)):
        of_others = np.flatnonzero(owner != target)
        n_allowed = [false_positives_allowed(budget, len(of_others)) for budget in fpr_budgets]
        at = np.append(of_others, len(owner))[np.minimum(n_allowed, len(of_others))]
        highest[:, target] = pooled[at]
    return highest


def _ordinal(values: FloatArray) -> npt.NDArray[np.uint64]:
    """Integers in the order of the floating-point numbers they represent."""
    bits = values.view(np.uint64)
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))


def _of_ordinal(ordinals: npt.NDArray[np.uint64]) -> FloatArray:
    bits = np.where(ordinals >> np.uint64(63), ordinals ^ np.uint64(1 << 63), ~ordinals)
    return bits.view(np.float64)


def _n_reaching(ascending: FloatArray, thresholds: npt.ArrayLike) -> IntArray:
    return np.asarray(len(ascending) - np.searchsorted(ascending, thresholds, side="left"))


def share_reaching(ascending: FloatArray, threshold: float) -> float:
    """Share of sorted scores at or above a threshold; NaN for no scores."""
    return int(_n_reaching(ascending, threshold)) / len(ascending) if len(ascending) else float("nan")
