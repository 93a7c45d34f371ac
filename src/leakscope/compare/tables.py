"""The figures of a comparison as tables of text, for the terminal, report.md, report.html and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leakscope.compare.results import (
    ComparisonResults,
    DifferenceFigure,
    LeakageDifference,
    LeakageMeasure,
    RunComparison,
)
from leakscope.evaluate.nouns import Noun
from leakscope.report.blocks import Table
from leakscope.stats.differences import OVER_MODELS

_NAMES: Mapping[LeakageMeasure, str] = {
    "auc": "AUC",
    "advantage": "advantage",
    "record_advantage": "mean advantage per record",
    "bits": "bits of membership per record",
}


def _head(figures: Iterable[DifferenceFigure]) -> tuple[str, ...]:
    """The columns of differences; the last one says what their intervals are for."""
    is_of_models = any(OVER_MODELS in figure.method for figure in figures)
    whose = "these records, other models" if is_of_models else "these models, other records"
    return "baseline", "this run", "difference", f"95% interval ({whose})"


def figure_name(figure: LeakageDifference) -> str:
    """A leakage figure by name, such as "TPR at 1% FPR (lira)"."""
    name = _NAMES.get(figure.measure) or tpr_name(figure.fpr or 0.0)
    return f"{name} ({figure.attack})" if figure.attack else name


def tpr_name(fpr: float) -> str:
    """A true positive rate by name, such as "TPR at 1% FPR"."""
    return f"TPR at {100 * fpr:g}% FPR"


def leakage_table(comparison: RunComparison) -> Table:
    """One row per leakage figure."""
    rows = [
        [
            figure_name(figure),
            *_difference_cells(figure),
            _interval_cell(figure.simultaneous_low, figure.simultaneous_high),
            figure.outcome,
        ]
        for figure in comparison.leakage
    ]
    head = ("leakage", *_head(comparison.leakage), "simultaneous", "outcome")
    return Table(head, rows, "Leakage: higher is worse")


def all_differences(results: ComparisonResults) -> Table:
    """The leakage figures of every run."""
    tables = [(comparison.run, leakage_table(comparison)) for comparison in results.comparisons]
    rows = [[run, *row] for run, table in tables for row in table.rows]
    return Table(("run", *tables[0][1].head), rows, "All differences with their intervals")


def accuracy_table(comparison: RunComparison) -> Table | None:
    """Accuracy on members and non-members; None where it is not compared."""
    accuracy = comparison.accuracy
    if accuracy is None:
        return None
    rows = [
        ["on members", *_difference_cells(accuracy.members)],
        ["on non-members", *_difference_cells(accuracy.nonmembers)],
    ]
    head = _head((accuracy.members, accuracy.nonmembers))
    return Table(("accuracy", *head), rows, "Accuracy: higher is better")


def group_tables(comparison: RunComparison, attack: str) -> list[Table]:
    """The AUC of the strongest attack by group, one table per column."""
    return [
        Table(
            (column, *_head(figures)),
            [[figure.group, *_difference_cells(figure)] for figure in figures],
            f"AUC of {attack} by {column}",
        )
        for column, figures in comparison.groups.items()
    ]


def record_table(comparison: RunComparison, noun: Noun) -> Table | None:
    """How many records are exposed in which run, and how many changed; None where they are not compared."""
    changes = comparison.records
    if changes is None:
        return None
    counts = {
        "exposed in the baseline": changes.exposed_baseline,
        "exposed in this run": changes.exposed_other,
        "exposed in both": changes.exposed_both,
        "significantly less exposed": changes.less_exposed,
        "significantly more exposed": changes.more_exposed,
    }
    rows = [
        [name, "not resolvable", ""]
        if count is None
        else [name, f"{count:,}", f"{count / changes.records:.1%}"]
        for name, count in counts.items()
    ]
    return Table((noun.many, "number", "share"), rows, f"Individually exposed {noun.many}")


def _difference_cells(figure: DifferenceFigure) -> list[str]:
    """Baseline, this run, difference, 95% interval."""
    values = [number(figure.baseline), number(figure.other)]
    if figure.difference is None:
        return [*values, "too few records", ""]
    return [*values, f"{figure.difference:+.4f}", _interval_cell(figure.low, figure.high)]


def _interval_cell(low: float | None, high: float | None) -> str:
    return "none" if low is None or high is None else f"{low:+.4f} to {high:+.4f}"


def number(value: float | None) -> str:
    """A figure as text."""
    return "undefined" if value is None else f"{value:.4f}"
