"""Writes the reports of a comparison: report.md, the figure and report.html."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.compare.results import ComparisonResults, RunComparison
from leakscope.compare.sentences import method_sentences, recipe_sentence, run_summary
from leakscope.compare.tables import accuracy_table, figure_name, group_tables, leakage_table
from leakscope.disk.storage import write_bytes
from leakscope.report.figures import COLOURS, MARKERS, figure
from leakscope.report.tables import Table, markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_report(results: ComparisonResults, folder: Path) -> None:
    """report.md, figures/differences.png and report.html."""
    from leakscope.compare.page import write_page

    write_bytes(folder / "report.md", markdown(results).encode())
    _draw(results, folder / "figures" / "differences.png")
    write_page(results, folder)


def markdown(results: ComparisonResults) -> str:
    """The report as Markdown."""
    baseline = results.baseline.name
    lines = [f"# Leakage compared with {baseline}", ""]
    for comparison in results.comparisons:
        lines += [f"## {comparison.run}", "", *run_summary(results, comparison), ""]
        lines += [recipe_sentence(comparison, baseline), ""]
        accuracy = accuracy_table(comparison)
        for table in (
            leakage_table(comparison),
            *([accuracy] if accuracy else []),
            *group_tables(comparison, results.strongest_attack),
        ):
            lines += [f"### {table.caption}", "", *_table(table), ""]
    lines += ["![Differences](figures/differences.png)", "", *method_sentences(results), ""]
    return "\n".join(_plain_line(line) for line in lines)


def _table(table: Table) -> list[str]:
    return markdown_table(table.head, [[" ".join(cell.split()) for cell in row] for row in table.rows])


def _plain_line(line: str) -> str:
    """Text on one line, in which no character starts an HTML tag: names come from data."""
    return " ".join(line.split()).replace("<", "&lt;")


def _draw(results: ComparisonResults, path: Path) -> None:
    """Every leakage difference with its two intervals."""
    figures = results.comparisons[0].leakage
    with figure(path, 7.2, 1.6 + 0.32 * len(figures)) as axes:
        for index, comparison in enumerate(results.comparisons):
            _draw_run(axes, comparison, index, len(results.comparisons))
        axes.axvline(0, color="#888888", linewidth=0.9, linestyle="--")
        axes.set_yticks(range(len(figures)), [figure_name(figure) for figure in figures])
        axes.invert_yaxis()
        run = results.baseline
        axes.set_xlabel(f"difference from {run.name}; right is worse ({run.targets} targets per run)")
        axes.set_title("Differences with 95% and simultaneous (thin) intervals")
        axes.legend(loc="best", fontsize=9)


def _draw_run(axes: Axes, comparison: RunComparison, index: int, n_runs: int) -> None:
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    shift = 0.6 * ((index + 0.5) / n_runs - 0.5)
    for row, leakage in enumerate(comparison.leakage):
        y, label = row + shift, comparison.run if row == 0 else None
        if leakage.difference is not None:
            axes.plot([leakage.difference], [y], marker, color=colour, label=label, markersize=5)
        for low, high, width in (
            (leakage.low, leakage.high, 2.2),
            (leakage.simultaneous_low, leakage.simultaneous_high, 0.8),
        ):
            if low is not None and high is not None:
                axes.plot([low, high], [y, y], color=colour, linewidth=width)
