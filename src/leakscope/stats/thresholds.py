"""Thresholds that an attacker can choose: from the non-members of models other than the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.stats.roc import false_positives_allowed

_MOST_POOLED = 1_000_000
"""Scores that are sorted together; more are searched one target at a time."""
_SIDES: tuple[Literal["right"], Literal["left"]] = ("right", "left")


class Barriers(NamedTuple):
    """Where calling ends: scores above `highest` are called members, and of the scores equal to it a share.

    An attacker who may call only some of the records that tie draws them at random. Without that, outputs
    rounded by a defence would seem to leak nothing: a threshold between two values is either too low for the
    budget or above everybody.

    Attributes:
        highest: float64 (targets, budgets); minus infinity where everybody may be called.
        tied: float64 (targets, budgets), the share of the ties that is called, from 0 to 1.
    """

    highest: FloatArray
    tied: FloatArray


def barriers_of_others(nonmembers: Sequence[FloatArray], fpr_budgets: Sequence[float]) -> Barriers:
    """For each target, the barriers at which the other targets' non-members use up the budgets.

    Args:
        nonmembers: one float64 array per target, ascending.
        fpr_budgets: shares of the other targets' non-members that may be called members.
    """
    n_own = np.array([len(own) for own in nonmembers])
    n_allowed = _n_allowed(n_own.sum() - n_own, fpr_budgets)
    find = _pooled_highest if n_own.sum() <= _MOST_POOLED else _bisected_highest
    highest = find(nonmembers, n_allowed)
    lowest = highest.min(initial=np.inf)
    tops = [own[np.searchsorted(own, lowest) :] for own in nonmembers]
    return Barriers(highest, _tied_share(tops, highest, n_allowed))


def barriers_of_scores(scores: FloatArray, in_mask: BoolArray, fpr_budgets: Sequence[float]) -> Barriers:
    """The same from scores in any order; float64 and bool (targets, records)."""
    nonmembers = [own[is_out] for own, is_out in zip(scores, ~in_mask, strict=True)]
    n_own = np.array([len(own) for own in nonmembers])
    n_allowed = _n_allowed(n_own.sum() - n_own, fpr_budgets)
    highest = _pooled_highest(nonmembers, n_allowed)
    lowest = highest.min(initial=np.inf)
    tops = [np.sort(own[own >= lowest]) for own in nonmembers]
    return Barriers(highest, _tied_share(tops, highest, n_allowed))


def _tied_share(tops: Sequence[FloatArray], highest: FloatArray, n_allowed: IntArray) -> FloatArray:
    """The share of the ties that uses up what is allowed; `tops`: scores from the lowest barrier on."""
    above, reaching = np.zeros((2, *highest.shape), dtype=np.int64)
    for target, own in enumerate(tops):  # one after the other: all scores together may not fit into memory
        of_all = _counts(own, highest)
        for total, counted in zip((above, reaching), of_all, strict=True):
            total += counted
            total[target] -= counted[target]
    return np.asarray(np.clip((n_allowed - above) / np.maximum(reaching - above, 1), 0.0, 1.0))


def _counts(ascending: FloatArray, barriers: FloatArray) -> tuple[IntArray, IntArray]:
    """How many scores are above each barrier, and how many are at least as high."""
    n = len(ascending)
    above, reaching = (n - np.searchsorted(ascending, barriers, side) for side in _SIDES)
    return np.asarray(above), np.asarray(reaching)


def _n_allowed(n_others: IntArray, fpr_budgets: Sequence[float]) -> IntArray:
    """How many of the others may be called members within each budget; int64 (targets, budgets)."""
    allowed = [[false_positives_allowed(b, int(n)) for b in fpr_budgets] for n in n_others]
    return np.array(allowed, dtype=np.int64).reshape(len(n_others), len(fpr_budgets))


def _pooled_highest(nonmembers: Sequence[FloatArray], n_allowed: IntArray) -> FloatArray:
    """The number with so many larger ones among the other targets' scores, from all scores in one order.

    Where the j-th score of a target is at place `p` of that order, `p - j` scores of others are before it. So
    the k-th score of others is at place k plus the number of own scores with at most k others before them.

    Returns:
        float64 (targets, budgets); minus infinity where there is none.
    """
    n_own = np.array([len(own) for own in nonmembers])
    owner, pooled = np.repeat(np.arange(len(n_own)), n_own), np.concatenate(nonmembers)
    n_others = np.minimum(n_allowed, (len(pooled) - n_own)[:, None])
    n_top = int(n_allowed.max(initial=0) + n_own.max()) + 1
    if n_top < len(pooled):  # lower ones are never the answer
        is_top = pooled >= np.partition(pooled, len(pooled) - n_top)[len(pooled) - n_top]
        owner, pooled = owner[is_top], pooled[is_top]
    descending = np.argsort(-pooled)
    by_owner = np.argsort(owner[descending], kind="stable")  # places of each target's scores, in order
    ends = np.cumsum(np.bincount(owner, minlength=len(n_own)))
    ordered = np.append(pooled[descending], -np.inf)
    highest = np.empty(n_allowed.shape)
    for target, own in enumerate(np.split(by_owner, ends[:-1])):
        n_others_before = own - np.arange(len(own))
        n_own_before = np.searchsorted(n_others_before, n_others[target], side="right")
        highest[target] = ordered[n_others[target] + n_own_before]
    return highest


def _bisected_highest(nonmembers: Sequence[FloatArray], n_allowed: IntArray) -> FloatArray:
    """The same by bisection over all floating-point numbers: exact, and without pooling the scores.

    Each target's scores are ascending.
    """
    low, high = (np.full(n_allowed.shape, _ordinal(end)) for end in (np.array(-np.inf), np.array(np.inf)))
    while (low < high).any():  # the largest number that more than `n_allowed` of the others reach
        middle = low + (high - low + np.uint64(1)) // np.uint64(2)
        value = _of_ordinal(middle)
        n_reaching = np.stack([_n_reaching(own, value.reshape(-1)) for own in nonmembers])
        n_reaching = n_reaching.reshape(len(nonmembers), *n_allowed.shape)
        own = n_reaching[np.arange(len(nonmembers)), np.arange(len(nonmembers))]
        enough = n_reaching.sum(axis=0) - own > n_allowed
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - np.uint64(1))
    return _of_ordinal(low)


def _ordinal(values: FloatArray) -> npt.NDArray[np.uint64]:
    """Integers in the order of the floating-point numbers they represent."""
    bits = values.view(np.uint64)
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))


def _of_ordinal(ordinals: npt.NDArray[np.uint64]) -> FloatArray:
    bits = np.where(ordinals >> np.uint64(63), ordinals ^ np.uint64(1 << 63), ~ordinals)
    return bits.view(np.float64)


def _n_reaching(ascending: FloatArray, thresholds: npt.ArrayLike) -> IntArray:
    return np.asarray(len(ascending) - np.searchsorted(ascending, thresholds, side="left"))


def share_called(ascending: FloatArray, highest: float, tied: float) -> float:
    """Share of sorted scores that are called members at a barrier; NaN for no scores."""
    if not len(ascending):
        return float("nan")
    above, reaching = (
        len(ascending) - np.searchsorted(ascending, highest, side) for side in ("right", "left")
    )
    return float(above + tied * (reaching - above)) / len(ascending)
