"""How well scores separate members from non-members: ROC, AUC, TPR at a given FPR, advantage.

Contract of every function here: a higher score means "member"; a record is called a member when
`score >= threshold`; members are the positive class. Ties are exact: a threshold takes all records of one
score or none, and a tied pair counts one half in the AUC (Mann and Whitney 1947). Nothing is interpolated.
Undefined values are NaN; `OperatingPoint.reason` states the reason.

Everything is computed from the sorted scores of the two sides (`SplitScores`). Sorting values is several
times faster than sorting indices. `leakscope.stats.roc_summary` computes the usual figures without a curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray
from leakscope.errors import InputError

# A budget of 0.29 with 100 non-members means 29 false positives, though 0.29 * 100 is 28.999...
_ROUNDING = 1e-12


class SplitScores(NamedTuple):
    """Scores of members and of non-members, each float64 and ascending; higher means member."""

    members: FloatArray
    nonmembers: FloatArray


@dataclass(frozen=True, eq=False)
class Roc:
    """One point for each distinct score, from (0, 0) to (1, 1).

    Attributes:
        fpr: float64 (points,), share of non-members called members; ascending.
        tpr: float64 (points,), share of members called members; ascending.
        thresholds: float64 (points,), descending; the first is above all scores (inf; NaN if a score is inf).
        n_members: number of members.
        n_nonmembers: number of non-members.
    """

    fpr: FloatArray
    tpr: FloatArray
    thresholds: FloatArray
    n_members: int
    n_nonmembers: int


class OperatingPoint(NamedTuple):
    """The best threshold within an FPR budget, and the rates it reaches.

    `tpr`, `fpr` and `threshold` are NaN where the budget is not measurable, and `reason` states why;
    otherwise `reason` is empty. The threshold is chosen on the scores it is evaluated on.
    """

    fpr_budget: float
    tpr: float
    fpr: float
    threshold: float
    reason: str = ""


def split_scores(scores: npt.ArrayLike, is_member: npt.ArrayLike) -> SplitScores:
    """Sorted scores of members and of non-members.

    Args:
        scores: float (records,), higher means member; infinite scores are allowed, NaN is not.
        is_member: bool (records,).

    Raises:
        InputError: shapes or types do not fit, or a score is NaN.
    """
    values = np.asarray(scores, dtype=np.float64)
    mask = np.asarray(is_member)
    if values.ndim != 1 or values.shape != mask.shape:
        raise InputError(f"scores {values.shape} and is_member {mask.shape} must be vectors of one length")
    if mask.dtype != np.bool_:
        raise InputError(f"is_member must be bool, got {mask.dtype}; use is_member == 1")
    n_nan = int(np.isnan(values).sum())
    if n_nan:
        raise InputError(f"{n_nan} of {len(values)} scores are NaN; drop the records that have no score")
    members, nonmembers = values[mask], values[~mask]
    members.sort()
    nonmembers.sort()
    return SplitScores(members, nonmembers)


def roc(scores: npt.ArrayLike, is_member: npt.ArrayLike) -> Roc:
    """The whole curve, with exact ties; arguments as in `split_scores`. A rate of an empty side is NaN."""
    members, nonmembers = sides = split_scores(scores, is_member)
    distinct = np.concatenate(sides)
    distinct.sort()
    distinct = distinct[_last_of_each_run(distinct)][::-1]
    nobody = threshold_for_nobody(sides)
    return Roc(
        fpr=_curve_rates(nonmembers, distinct),
        tpr=_curve_rates(members, distinct),
        thresholds=np.concatenate([[nobody], distinct]),
        n_members=len(members),
        n_nonmembers=len(nonmembers),
    )


def auc(scores: npt.ArrayLike, is_member: npt.ArrayLike) -> float:
    """P(member scores higher) + P(tie) / 2, over all pairs; NaN when a side is empty.

    Arguments as in `split_scores`. O(n log n); the pair counts are integers, so the value is exact.
    """
    return auc_of_split(split_scores(scores, is_member))


def auc_of_split(sides: SplitScores) -> float:
    """The AUC of sorted scores; NaN when a side is empty."""
    members, nonmembers = sides
    n_pairs = len(members) * len(nonmembers)
    if n_pairs == 0:
        return float("nan")
    below = int(np.searchsorted(nonmembers, members, side="left").sum())
    not_above = int(np.searchsorted(nonmembers, members, side="right").sum())
    return (below + not_above) / (2 * n_pairs)


def advantage(curve: Roc) -> float:
    """Largest TPR - FPR over all thresholds, in [0, 1] (Yeom et al. 2018); NaN when a side is empty."""
    return float((curve.tpr - curve.fpr).max())


def operating_point(curve: Roc, fpr_budget: float) -> OperatingPoint:
    """The point of the curve with the highest TPR within the budget, at the lowest such FPR."""
    reason = why_unresolvable(fpr_budget, curve.n_members, curve.n_nonmembers)
    if reason:
        return undefined_point(fpr_budget, reason)
    n_allowed = false_positives_allowed(fpr_budget, curve.n_nonmembers)
    last = int(np.searchsorted(curve.fpr, (n_allowed + 0.5) / curve.n_nonmembers)) - 1
    best = int(np.searchsorted(curve.tpr, curve.tpr[last], side="left"))
    return OperatingPoint(
        fpr_budget, float(curve.tpr[best]), float(curve.fpr[best]), float(curve.thresholds[best])
    )


def why_unresolvable(fpr_budget: float, n_members: int, n_nonmembers: int) -> str:
    """Why a TPR at this FPR budget is undefined; empty when it is defined."""
    if not 0 <= fpr_budget <= 1:
        raise InputError(f"fpr_budget must be in [0, 1], got {fpr_budget}")
    if n_members == 0 or n_nonmembers == 0:
        return f"needs both sides, got {n_members} members and {n_nonmembers} non-members"
    if false_positives_allowed(fpr_budget, n_nonmembers) < 1:
        return (
            f"an FPR of {100 * fpr_budget:g}% is below 1/{n_nonmembers:,}, the smallest that "
            f"{n_nonmembers:,} non-members can measure"
        )
    return ""


def precision_at_prior(tpr: npt.ArrayLike, fpr: npt.ArrayLike, prior: npt.ArrayLike) -> FloatArray:
    """Share of members among the records called members, if a share `prior` of all records are members.

    Args:
        tpr: rates in [0, 1], any shape that broadcasts.
        fpr: the same.
        prior: share of members among the records an attacker considers, in [0, 1].

    Returns:
        float64 of the broadcast shape; NaN where no record is called a member.
    """
    true_calls = np.asarray(prior, dtype=np.float64) * np.asarray(tpr, dtype=np.float64)
    false_calls = (1 - np.asarray(prior, dtype=np.float64)) * np.asarray(fpr, dtype=np.float64)
    calls = true_calls + false_calls
    precision = np.full(np.shape(calls), np.nan)
    np.divide(true_calls, calls, out=precision, where=calls > 0)
    return precision


def undefined_point(fpr_budget: float, reason: str) -> OperatingPoint:
    """A point whose values are NaN, with the reason."""
    return OperatingPoint(fpr_budget, float("nan"), float("nan"), float("nan"), reason)


def false_positives_allowed(fpr_budget: float, n_nonmembers: int) -> int:
    """The largest number of false positives whose FPR is at most the budget."""
    return int(np.floor(fpr_budget * n_nonmembers * (1 + _ROUNDING)))


def threshold_for_nobody(sides: SplitScores) -> float:
    """A threshold that no score reaches: inf, or NaN when a score is infinite."""
    reached = any(len(side) and side[-1] == np.inf for side in sides)
    return float("nan") if reached else float("inf")


def _last_of_each_run(ascending: FloatArray) -> BoolArray:
    last = np.ones(len(ascending), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=last[:-1])
    return last


def _curve_rates(side: FloatArray, falling_thresholds: FloatArray) -> FloatArray:
    """Share of the side at or above each threshold, after a first point of 0; float64 (points,)."""
    if not len(side):
        return np.full(len(falling_thresholds) + 1, np.nan)
    rates = np.zeros(len(falling_thresholds) + 1)
    np.subtract(
        len(side), np.searchsorted(side, falling_thresholds, side="left"), out=rates[1:], casting="unsafe"
    )
    rates /= len(side)
    return rates
