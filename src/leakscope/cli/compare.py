"""`leakscope compare RUN RUN [...]`: did it help, and at what cost?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, Quiet

if TYPE_CHECKING:
    from leakscope.compare.compare import Comparison


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of audits; the first is the baseline.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the comparison; by default beside the baseline.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare audits of the same records with the first: what leaks less, what more, at what cost.

    Exit code 1 when a run leaks more than the baseline, beyond the interval.
    """
    from leakscope.cli.output import print_json
    from leakscope.compare.compare import compare as run_compare

    found = run_compare(runs, out or default_folder(runs))
    if as_json:
        print_json(found.results)
    elif not quiet:
        _show(found)
    if found.is_regression:
        if quiet or as_json:
            print(f"leakscope: {_regressions(found)}", file=sys.stderr)
        raise typer.Exit(1)


def default_folder(runs: list[Path]) -> Path:
    """Beside the baseline, named after all runs; at most 100 characters."""
    names = [run.resolve().name for run in runs]
    return runs[0].parent / f"compare-{'-'.join(names)}"[:100]


def _show(found: Comparison) -> None:
    from rich.table import Table

    from leakscope.cli.output import console
    from leakscope.compare.report import LEAKAGE_HEAD, leakage_rows

    screen = console()
    screen.print()
    for comparison in found.results["comparisons"]:
        for line in comparison["sentences"]:
            screen.print(line, style="bold red" if line.startswith(("Regression", "DO NOT")) else None)
        table = Table(
            title=f"{comparison['run']} minus {found.results['runs'][0]['name']}", title_justify="left"
        )
        for heading in LEAKAGE_HEAD:
            table.add_column(heading, justify="left" if heading == "leakage" else "right")
        for row in leakage_rows(comparison):
            table.add_row(*row)
        screen.print()
        screen.print(table)
        screen.print()
    screen.print(f"Every number and report.html are in {found.folder}", soft_wrap=True)


def _regressions(found: Comparison) -> str:
    worse = [c["run"] for c in found.results["comparisons"] if c["outcome"] in ("worse", "mixed")]
    return f"{', '.join(worse)} gives away more than {found.results['runs'][0]['name']}, beyond the interval"
