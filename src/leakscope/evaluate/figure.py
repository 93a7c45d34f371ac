"""A figure with its intervals, from its value and its variance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.evaluate.results import AttackFigures, Figure
from leakscope.stats.intervals import Interval, wilson
from leakscope.stats.two_way import Variance

UNDEFINED = Figure(float("nan"), float("nan"), float("nan"), sd=None)
"""A figure that cannot be measured."""
LEVEL, GATE_LEVEL = 0.95, 0.99
"""Of the intervals that are printed, and of those that a gate compares with its limits."""
FigureT = TypeVar("FigureT", bound=Figure)
_PRINTED_ENDS, _GATE_ENDS = ("high", "these_high"), ("high_99", "these_high_99")
_ROUNDING = 1e-9  # a smaller standard error is rounding: all records and models agree


def figure_of_targets(
    values: FloatArray,
    variance: Variance,
    otherwise: Callable[[float, float], Interval],
    *,
    is_rate: bool = True,
    n_most: float = np.inf,
) -> Figure:
    """The mean over targets with both intervals, or the value of the only target with one; all from 0 to 1.

    Args:
        values: float64 (targets,); NaN: undefined.
        variance: of the mean.
        otherwise: value, level -> interval, where the variance is 0, as for an attack that is always right.
        is_rate: whether the variance of the figure vanishes at 0 and 1, as that of a rate.
        n_most: records that a rate of one target is about; it cannot be better known than that of so many.
    """
    defined = values[~np.isnan(values)]
    if not len(defined):
        return UNDEFINED
    sd = float(defined.std(ddof=1)) if len(defined) > 1 else None
    mean, several = float(defined.mean()), len(values) > 1
    return figure_with_intervals(
        mean, sd, variance, otherwise, several=several, is_rate=is_rate, n_most=n_most
    )


def figure_with_intervals(
    mean: float,
    sd: float | None,
    variance: Variance,
    otherwise: Callable[[float, float], Interval],
    *,
    several: bool,
    is_rate: bool = True,
    n_independent: int = 0,
    n_most: float = np.inf,
) -> Figure:
    """A figure over `several` targets, or of one, with its intervals; arguments as in `figure_of_targets`.

    `n_independent` is the number of records that a rate of few records is a mean over.
    """
    value = min(max(mean, 0.0), 1.0)
    if (several and not variance.degrees) or not np.isfinite(variance.like_these):
        return replace(UNDEFINED, value=value, sd=sd)

    def ends(level: float, *, these_records: bool) -> tuple[float, float]:
        error = variance.standard_error(these_records=these_records)
        if error < _ROUNDING:
            interval = otherwise(value, level)
            return interval.low, interval.high
        quantile = variance.quantile(level, these_records=these_records)
        if is_rate and 0 < value < 1:
            return wilson(value, error, quantile, n_independent, n_most)
        low, high = np.clip([mean - quantile * error, mean + quantile * error], 0.0, 1.0).tolist()
        if is_rate:  # 0 or 1: that none was called, or all were, says nothing about the spread
            interval = otherwise(value, level)
            low, high = min(low, interval.low), max(high, interval.high)
        return low, high

    low, high = ends(LEVEL, these_records=False)
    high_99 = ends(GATE_LEVEL, these_records=False)[1]
    if not several:
        return Figure(value, low, high, sd, high_99=high_99)
    these_low, these_high = ends(LEVEL, these_records=True)
    these_high_99 = ends(GATE_LEVEL, these_records=True)[1]
    # Another sample can change no less. It would seem to where only one of the two variances is 0.
    return Figure(
        value,
        min(low, these_low),
        max(high, these_high),
        sd,
        these_low,
        these_high,
        max(high_99, these_high_99),
        these_high_99,
    )


def with_highest_ends(
    figure: FigureT, others: Sequence[Figure], ends: Sequence[str] = (*_PRINTED_ENDS, *_GATE_ENDS)
) -> FigureT:
    """The figure with the highest upper ends of its own and of others, of those that it has."""

    def highest(end: str) -> float | None:
        known = [value for one in (figure, *others) if (value := getattr(one, end)) is not None]
        return max(known) if known else None

    return replace(figure, **{end: highest(end) for end in ends})


class CurveFigures(NamedTuple):
    """Figures of ROC curves; one TPR for each FPR."""

    auc: Figure
    advantage: Figure
    tprs: list[Figure]


def with_gate_ends_of(figures: AttackFigures, other_way: CurveFigures) -> AttackFigures:
    """The figures of an attack, whose limits have to hold for the opposite scores as well."""

    def either(own: FigureT, other: Figure) -> FigureT:
        return with_highest_ends(own, [other], _GATE_ENDS)

    return replace(
        figures,
        auc=either(figures.auc, other_way.auc),
        advantage=either(figures.advantage, other_way.advantage),
        tpr_at_fpr=tuple(map(either, figures.tpr_at_fpr, other_way.tprs)),
    )
