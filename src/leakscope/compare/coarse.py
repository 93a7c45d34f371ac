"""A comparison of given models as its page states it: figures that fit any number of members."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from leakscope.compare.results import ComparisonResults, DifferenceFigure, RunComparison
from leakscope.stats.rounding import Rounding

FigureT = TypeVar("FigureT", bound=DifferenceFigure)
_SHARE = 0.25
"""Share of members that the steps allow for: a comparison does not store how many there are."""


def shareable(results: ComparisonResults) -> ComparisonResults:
    """The comparison as others may see it: rounded where a given model is compared."""
    return _coarse(results) if any(run.targets == 1 for run in results.runs) else results


def _coarse(results: ComparisonResults) -> ComparisonResults:
    n_records = min(run.records for run in results.runs)
    rounding = Rounding.of(n_records, _SHARE * n_records)
    runs = tuple(
        replace(run, hygiene_failed=tuple(map(rounding.text, run.hygiene_failed))) for run in results.runs
    )
    comparisons = tuple(_comparison(one, rounding) for one in results.comparisons)
    return replace(results, runs=runs, comparisons=comparisons)


def _comparison(comparison: RunComparison, rounding: Rounding) -> RunComparison:
    accuracy = comparison.accuracy
    if accuracy is not None:
        members, nonmembers = (
            rounded_figure(one, rounding) for one in (accuracy.members, accuracy.nonmembers)
        )
        accuracy = replace(accuracy, members=members, nonmembers=nonmembers)
    leakage = tuple(rounded_figure(figure, rounding) for figure in comparison.leakage)
    return replace(comparison, leakage=leakage, accuracy=accuracy)


def rounded_figure(figure: FigureT, rounding: Rounding) -> FigureT:
    """Both figures rounded, their difference, and an interval around it that contains the exact one."""
    if figure.baseline is None or figure.other is None or figure.difference is None:
        return figure
    baseline, other = rounding.nearest(figure.baseline), rounding.nearest(figure.other)
    difference = round(other - baseline, 9)
    ends: dict[str, Any] = {}
    for name in (field.name for field in fields(figure) if field.name.endswith(("low", "high"))):
        end = getattr(figure, name)
        if end is not None:
            width = rounding.up(abs(end - figure.difference) + rounding.step)
            rounded = round(difference + (width if end > figure.difference else -width), 9)
            ends[name] = min(max(rounded, -1.0), 1.0) if -1 <= end <= 1 else rounded
    return replace(figure, baseline=baseline, other=other, difference=difference, **ends)
