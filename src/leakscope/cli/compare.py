"""`leakscope compare RUN RUN [...]`: does a defense help, and what does it cost?"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, Quiet, print_lines, show_results, text_table

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.compare.compare import Comparison


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of audits, the baseline first.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the comparison (default: next to the baseline).")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare audits of the same records with the first: what leaks less, what leaks more, at what cost.

    The exit code is 1 when a run leaks significantly more than the baseline.
    """
    from leakscope.compare.compare import compare as compare_runs
    from leakscope.compare.sentences import regressions

    comparison = compare_runs(runs, out or default_folder(runs))
    show_results(comparison.results, partial(_show, comparison), quiet, as_json)
    if comparison.is_regression:
        if quiet or as_json:
            for run in comparison.results.comparisons:
                for line in regressions(run):
                    print(f"leakscope: {line}", file=sys.stderr)
        raise typer.Exit(1)


def default_folder(runs: list[Path]) -> Path:
    """Next to the baseline, named after all runs; at most 100 characters."""
    names = [run.resolve().name for run in runs]
    return runs[0].parent / f"compare-{'-'.join(names)}"[:100]


def _show(comparison: Comparison, screen: Console) -> None:
    """The comparison on the screen: sentences and one table per run, and where the rest is."""
    from leakscope.compare.sentences import is_alarm, run_summary
    from leakscope.compare.tables import leakage_table
    from leakscope.report.page import PAGE

    results = comparison.results
    for run in results.comparisons:
        screen.print()
        for line in run_summary(results, run):
            screen.print(line, style="bold red" if is_alarm(line) else None)
        screen.print()
        figures = leakage_table(run)
        screen.print(text_table(f"{run.run} minus {results.baseline.name}", figures.head, figures.rows))
    where = f"\nEvery number and the figure are in {comparison.folder}"
    print_lines(screen, [where, f"Open {comparison.folder / PAGE} for the whole report"])
