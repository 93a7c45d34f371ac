"""The success of an attack by group of records, with intervals.

Figures of a group that is too small are NaN, with a reason. The threshold for a group's TPR at an FPR is the
group's own, chosen on the scores it is evaluated on; the interval's method says so.
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
    """The group of each record.

    Attributes:
        names: names of the groups, sorted; none is empty.
        codes: int32 (records,), index of each record's group in `names`.
    """

    names: tuple[str, ...]
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, labels: npt.ArrayLike) -> Grouping:
        """Groups by labels, one per record."""
        names, codes = distinct(np.asarray(labels, dtype=np.str_))
        return cls(tuple(names.tolist()), codes)

    def items(self) -> Iterator[tuple[str, IntArray]]:
        """Name and record indices of each group."""
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
        group: its name.
        n_members: members in the group.
        n_nonmembers: non-members in the group.
        auc: DeLong interval.
        advantage: largest TPR - FPR, Dvoretzky-Kiefer-Wolfowitz interval.
        tpr_at_fpr: one per budget; Clopper-Pearson at the chosen threshold.
    """

    group: str
    n_members: int
    n_nonmembers: int
    auc: Measured
    advantage: Measured
    tpr_at_fpr: tuple[Measured, ...]


class GroupSpread(NamedTuple):
    """One attack within one group over targets: means with t intervals, without targets that have too few."""

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
        groups: group of each record.
        fpr_budgets: FPR budgets in [0, 1].
        level: two-sided confidence, one group at a time.
        n_least: smallest number of members, and of non-members, of a group.
    """
    check_level(level)
    values, mask = np.asarray(scores), np.asarray(is_member)
    _check_shape(groups, values.shape)
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
        groups: group of each record.
        fpr_budgets: FPR budgets in [0, 1].
        level: two-sided confidence, one group at a time.
        n_least: smallest number of members, and of non-members, for a target to count.
    """
    check_level(level)
    _check_shape(groups, np.shape(scores)[1:])
    summaries: dict[str, list[RocSummary]] = {name: [] for name in groups.names}
    for values, members in zip(scores, in_mask, strict=True):  # one target's scores in memory at a time
        row, mask = np.array(values), np.array(members)
        for name, at in groups.items():
            summaries[name].append(roc_summary_of_split(split_scores(row[at], mask[at]), fpr_budgets))
        evict_pages(scores, in_mask)
    return tuple(_spread_of_group(name, rows, level, n_least) for name, rows in summaries.items())


def _metrics_of_group(
    group: str, scores: FloatArray, is_member: BoolArray, budgets: Sequence[float], level: float, n_least: int
) -> GroupMetrics:
    sides = split_scores(scores, is_member)
    n_members, n_nonmembers = len(sides.members), len(sides.nonmembers)
    if min(n_members, n_nonmembers) < n_least:
        reason = f"{n_members} members and {n_nonmembers} non-members; it takes {n_least} of each"
        missing = _undefined(reason, level)
        return GroupMetrics(group, n_members, n_nonmembers, missing, missing, (missing,) * len(budgets))
    summary = roc_summary_of_split(sides, budgets)
    return GroupMetrics(
        group,
        n_members,
        n_nonmembers,
        auc=Measured(summary.auc, delong_of_split(sides, level).interval),
        advantage=Measured(
            summary.advantage, advantage_interval(summary.advantage, n_members, n_nonmembers, level)
        ),
        tpr_at_fpr=tuple(_measured_tpr(point, n_members, level) for point in summary.points),
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


def _check_shape(groups: Grouping, shape: tuple[int, ...]) -> None:
    if groups.codes.shape != shape:
        raise InputError(f"groups need one label per record: {groups.codes.shape}, records {shape}")


def _undefined(reason: str, level: float) -> Measured:
    return Measured(float("nan"), Interval(float("nan"), float("nan"), level, f"undefined: {reason}"), reason)
