"""The attack's success by group: who carries more of the risk, with intervals and honest gaps.

A group that is too small gives NaN and the reason, not a number. The threshold of a group's TPR at an FPR is
the group's own, chosen on the scores it is judged on; the interval's method says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import evict_pages
from leakscope.disk.string_arrays import distinct
from leakscope.errors import InputError
from leakscope.stats.intervals import (
    Interval,
    Spread,
    advantage_interval,
    check_level,
    clopper_pearson,
    delong_of_split,
    spread_over_targets,
)
from leakscope.stats.roc import OperatingPoint, split_scores
from leakscope.stats.roc_summary import RocSummary, roc_summary_of_split


class Grouping(NamedTuple):
    """Who belongs to which group.

    Attributes:
        names: of the groups, in order; each has a record.
        codes: int32 (records,), the place of each record's group among the names.
    """

    names: tuple[str, ...]
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, labels: npt.ArrayLike) -> Grouping:
        """Groups by their labels, one a record."""
        found = distinct(np.asarray(labels, dtype=np.str_))
        return cls(tuple(found.names.tolist()), found.codes)

    def items(self) -> Iterator[tuple[str, IntArray]]:
        """Each group's name and its records' indices."""
        for code, name in enumerate(self.names):
            yield name, np.flatnonzero(self.codes == code)


class Measured(NamedTuple):
    """A figure and its interval; NaN and a reason where it is undefined."""

    value: float
    interval: Interval
    reason: str = ""


class GroupMetrics(NamedTuple):
    """One attack on one target within one group; higher means more leakage.

    Attributes:
        group: the label.
        n_members: members in the group.
        n_nonmembers: non-members in the group.
        auc: DeLong interval.
        advantage: largest TPR - FPR, Dvoretzky-Kiefer-Wolfowitz interval.
        tpr_at_fpr: one a budget, in the order asked; Clopper-Pearson at the chosen threshold.
    """

    group: str
    n_members: int
    n_nonmembers: int
    auc: Measured
    advantage: Measured
    tpr_at_fpr: tuple[Measured, ...]


class GroupSpread(NamedTuple):
    """The same over targets: means with t intervals; targets where the group is too small are left out."""

    group: str
    n_records: int
    auc: Spread
    advantage: Spread
    tpr_at_fpr: tuple[Spread, ...]


def group_metrics(
    scores: npt.ArrayLike,
    is_member: npt.ArrayLike,
    groups: Grouping,
    fpr_budgets: Sequence[float] = (0.01,),
    *,
    level: float = 0.95,
    n_least: int = 10,
) -> tuple[GroupMetrics, ...]:
    """Metrics of each group, groups in sorted order.

    Args:
        scores: float (records,), higher means member.
        is_member: bool (records,).
        groups: of the records.
        fpr_budgets: FPR budgets in [0, 1].
        level: two-sided confidence, one group at a time.
        n_least: members and non-members that a group needs.
    """
    check_level(level)
    values, mask = np.asarray(scores), np.asarray(is_member)
    _check_one_a_record(groups, values.shape)
    return tuple(
        _metrics_of_group(name, values[at], mask[at], fpr_budgets, level, n_least)
        for name, at in groups.items()
    )


def group_spread(
    scores: FloatArray,
    in_mask: BoolArray,
    groups: Grouping,
    fpr_budgets: Sequence[float] = (0.01,),
    *,
    level: float = 0.95,
    n_least: int = 10,
) -> tuple[GroupSpread, ...]:
    """Metrics of each group over targets, groups in sorted order.

    Args:
        scores: float (targets, records), higher means member.
        in_mask: bool (targets, records).
        groups: of the records.
        fpr_budgets: FPR budgets in [0, 1].
        level: two-sided confidence, one group at a time.
        n_least: members and non-members that a group needs in a target to count there.
    """
    check_level(level)
    _check_one_a_record(groups, np.shape(scores)[1:])
    found: dict[str, list[RocSummary]] = {name: [] for name in groups.names}
    for values, members in zip(scores, in_mask, strict=True):  # one target's scores in memory at a time
        row, mask = np.array(values), np.array(members)
        for name, at in groups.items():
            found[name].append(roc_summary_of_split(split_scores(row[at], mask[at]), fpr_budgets))
        evict_pages(scores, in_mask)
    return tuple(_spread_of_group(name, rows, level, n_least) for name, rows in found.items())


def _metrics_of_group(
    group: str, scores: FloatArray, is_member: BoolArray, budgets: Sequence[float], level: float, n_least: int
) -> GroupMetrics:
    sides = split_scores(scores, is_member)
    n_members, n_nonmembers = len(sides.members), len(sides.nonmembers)
    if min(n_members, n_nonmembers) < n_least:
        reason = f"{n_members} members and {n_nonmembers} non-members; {n_least} of each are needed"
        missing = _undefined(reason, level)
        return GroupMetrics(group, n_members, n_nonmembers, missing, missing, (missing,) * len(budgets))
    found = roc_summary_of_split(sides, budgets)
    return GroupMetrics(
        group,
        n_members,
        n_nonmembers,
        auc=Measured(found.auc, delong_of_split(sides, level).interval),
        advantage=Measured(
            found.advantage, advantage_interval(found.advantage, n_members, n_nonmembers, level)
        ),
        tpr_at_fpr=tuple(_measured_tpr(point, n_members, level) for point in found.points),
    )


def _measured_tpr(point: OperatingPoint, n_members: int, level: float) -> Measured:
    if point.reason:
        return _undefined(point.reason, level)
    exact = clopper_pearson(round(point.tpr * n_members), n_members, level)
    method = "Clopper-Pearson; threshold chosen on the same scores"
    return Measured(point.tpr, Interval(exact.low, exact.high, level, method))


def _spread_of_group(group: str, rows: Sequence[RocSummary], level: float, n_least: int) -> GroupSpread:
    is_large = np.array([min(row.n_members, row.n_nonmembers) >= n_least for row in rows])  # (targets,)

    def spread(values: Sequence[float]) -> Spread:
        return spread_over_targets(np.where(is_large, np.array(values), np.nan), level)

    return GroupSpread(
        group,
        rows[0].n_members + rows[0].n_nonmembers,
        auc=spread([row.auc for row in rows]),
        advantage=spread([row.advantage for row in rows]),
        tpr_at_fpr=tuple(spread([row.points[b].tpr for row in rows]) for b in range(len(rows[0].points))),
    )


def _check_one_a_record(groups: Grouping, shape: tuple[int, ...]) -> None:
    if groups.codes.shape != shape:
        raise InputError(f"groups must have one label a record: {groups.codes.shape}, records {shape}")


def _undefined(reason: str, level: float) -> Measured:
    return Measured(float("nan"), Interval(float("nan"), float("nan"), level, f"undefined: {reason}"), reason)
