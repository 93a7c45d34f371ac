"""`leakscope compare RUN RUN [...]`: does a defense help, and what does it cost?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, Quiet

if TYPE_CHECKING:
    from rich.table import Table

    from leakscope.compare.compare import Comparison
    from leakscope.compare.results import RunComparison


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
    from leakscope.bank.results import results_json
    from leakscope.cli.output import print_json
    from leakscope.compare.compare import compare as compare_runs
    from leakscope.compare.sentences import regressions

    comparison = compare_runs(runs, out or default_folder(runs))
    if as_json:
        print_json(results_json(comparison.results))
    elif not quiet:
        _show(comparison)
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


def _show(comparison: Comparison) -> None:
    """The comparison on the screen: sentences and one table per run, and where the rest is."""
    from leakscope.cli.output import console
    from leakscope.compare.sentences import is_alarm, run_summary
    from leakscope.report.page import PAGE

    screen, results = console(), comparison.results
    for run in results.comparisons:
        screen.print()
        for line in run_summary(results, run):
            screen.print(line, style="bold red" if is_alarm(line) else None)
        screen.print()
        screen.print(_table(run, results.baseline.name))
    screen.print(f"\nEvery number and the figure are in {comparison.folder}", soft_wrap=True)
    screen.print(f"Open {comparison.folder / PAGE} for the whole report", soft_wrap=True)


def _table(comparison: RunComparison, baseline: str) -> Table:
    from rich.table import Table

    from leakscope.compare.tables import leakage_table

    figures = leakage_table(comparison)
    table = Table(title=f"{comparison.run} minus {baseline}", title_justify="left")
    for heading in figures.head:
        table.add_column(heading, justify="left" if heading == "leakage" else "right")
    for row in figures.rows:
        table.add_row(*row)
    return table
