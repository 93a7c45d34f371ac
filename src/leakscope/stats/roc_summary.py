"""AUC, advantage and TPR at a few FPRs from two sorts, without building a curve; one target or many.

Same contract and same values as `leakscope.stats.roc`, in less than half the time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray
from leakscope.errors import InputError
from leakscope.stats.roc import (
    OperatingPoint,
    SplitScores,
    auc_of_split,
    false_positives_allowed,
    split_scores,
    threshold_for_nobody,
    undefined_point,
    why_unresolvable,
)


class RocSummary(NamedTuple):
    """What most reports need, without a curve. Rates in [0, 1]; higher means more leakage."""

    auc: float
    advantage: float
    points: tuple[OperatingPoint, ...]
    n_members: int
    n_nonmembers: int


def headline(
    scores: npt.ArrayLike, is_member: npt.ArrayLike, fpr_budgets: Sequence[float] = (0.001, 0.01)
) -> RocSummary:
    """AUC, advantage and the TPR at some FPR budgets from two sorts, without building the curve.

    Arguments as in `split_sides`. Equal to the values of `auc`, `advantage` and `operating_point`.
    """
    return roc_summary_of_split(split_scores(scores, is_member), fpr_budgets)


def roc_summary_of_split(sides: SplitScores, fpr_budgets: Sequence[float]) -> RocSummary:
    """`headline` of sides that are already sorted."""
    return RocSummary(
        auc=auc_of_split(sides),
        advantage=_advantage_of_sides(sides),
        points=tuple(operating_point_of_split(sides, budget) for budget in fpr_budgets),
        n_members=len(sides.members),
        n_nonmembers=len(sides.nonmembers),
    )


def headline_rows(
    scores: FloatArray,
    in_mask: BoolArray,
    fpr_budgets: Sequence[float] = (0.001, 0.01),
    counted: BoolArray | None = None,
) -> tuple[RocSummary, ...]:
    """One `Headline` a target.

    Args:
        scores: float (targets, records), higher means member.
        in_mask: bool (targets, records).
        fpr_budgets: FPR budgets in [0, 1].
        counted: bool (targets, records); records to leave out, such as those without a score, are false.
    """
    return tuple(
        roc_summary_of_split(sides, fpr_budgets) for sides in _sides_of_rows(scores, in_mask, counted)
    )


def auc_rows(scores: FloatArray, in_mask: BoolArray, counted: BoolArray | None = None) -> FloatArray:
    """AUC of each target, float64 (targets,); arguments as in `headline_rows`."""
    return np.array([auc_of_split(sides) for sides in _sides_of_rows(scores, in_mask, counted)])


def tpr_at_fpr_rows(
    scores: FloatArray, in_mask: BoolArray, fpr_budget: float, counted: BoolArray | None = None
) -> FloatArray:
    """TPR of each target within one FPR budget, float64 (targets,); arguments as in `headline_rows`."""
    rows = _sides_of_rows(scores, in_mask, counted)
    return np.array([operating_point_of_split(sides, fpr_budget).tpr for sides in rows])


def _sides_of_rows(
    scores: FloatArray, in_mask: BoolArray, counted: BoolArray | None
) -> Iterator[SplitScores]:
    shapes = {np.shape(scores), np.shape(in_mask), np.shape(scores if counted is None else counted)}
    if len(shapes) > 1 or np.ndim(scores) != 2:
        raise InputError(f"scores, in_mask and counted must share one (targets, records) shape, got {shapes}")
    for target, row in enumerate(scores):
        use = slice(None) if counted is None else counted[target]
        yield split_scores(row[use], in_mask[target][use])


def _advantage_of_sides(sides: SplitScores) -> float:
    """The largest TPR - FPR is reached at a member's score, or at nobody."""
    members, nonmembers = sides
    if not len(members) or not len(nonmembers):
        return float("nan")
    tpr = 1 - np.searchsorted(members, members, side="left") / len(members)  # (members,)
    fpr = 1 - np.searchsorted(nonmembers, members, side="left") / len(nonmembers)  # (members,)
    return max(float((tpr - fpr).max()), 0.0)


def operating_point_of_split(sides: SplitScores, fpr_budget: float) -> OperatingPoint:
    """The best threshold within the budget, as `operating_point` finds on the curve."""
    members, nonmembers = sides
    reason = why_unresolvable(fpr_budget, len(members), len(nonmembers))
    if reason:
        return undefined_point(fpr_budget, reason)
    n_allowed = false_positives_allowed(fpr_budget, len(nonmembers))
    first = 0  # the lowest member called a member
    if n_allowed < len(nonmembers):
        must_stay_out = nonmembers[len(nonmembers) - 1 - n_allowed]
        first = int(np.searchsorted(members, must_stay_out, side="right"))
    if first == len(members):
        return OperatingPoint(fpr_budget, 0.0, 0.0, threshold_for_nobody(sides))
    n_false = len(nonmembers) - int(np.searchsorted(nonmembers, members[first], side="left"))
    n_true = len(members) - first
    return OperatingPoint(fpr_budget, n_true / len(members), n_false / len(nonmembers), float(members[first]))
