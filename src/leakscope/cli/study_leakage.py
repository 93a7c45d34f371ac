"""`leakscope study leakage`: what drives membership leakage?"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, DataDir, Out, Quiet

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.studies.leakage.results import LeakageResults

_ONLY_IN_REPORTS = ("advantage (mean)", "rho_KL (median)", "uncorrected")
"""Columns that do not fit a terminal."""


def leakage(
    figure: Annotated[
        list[int] | None, typer.Option(help="Figure 1 to 5; may be given several times (default: all).")
    ] = None,
    records: Annotated[int | None, typer.Option(help="Records to measure (default: by budget).")] = None,
    trials: Annotated[
        int | None, typer.Option(help="Trainings with and without each record, in each of two halves (K).")
    ] = None,
    budget: Annotated[str, typer.Option(help="quick (a minute), standard (minutes) or thorough.")] = "quick",
    precision: Annotated[
        float, typer.Option(help="Step of the grid to which parameters are rounded, figure 3.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    data_dir: DataDir = None,
    out: Out = Path("runs/leakage"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a model reveals about one record, and how size, ridge, features and noise change it."""
    from leakscope.cli.output import show_results
    from leakscope.studies.leakage.config import with_budget
    from leakscope.studies.leakage.study import run
    from leakscope.studies.leakage.universe import available_dataset

    config = with_budget(
        budget, figures=tuple(sorted(set(figure))) if figure else None, records=records, trials=trials,
        precision=precision, seed=seed, dataset=available_dataset(data_dir),
    )  # fmt: skip
    is_verbose = not (quiet or as_json)
    results = run(config, out, data_dir, _to_stderr if is_verbose else lambda _: None)
    show_results(results, partial(_show, results, out), quiet, as_json)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(results: LeakageResults, out: Path, screen: Console) -> None:
    from leakscope.cli.output import print_lines, text_table
    from leakscope.studies.leakage.config import FIGURES
    from leakscope.studies.leakage.page import (
        caveats,
        check_lines,
        point_table,
        setting_words,
        without_columns,
    )

    print_lines(screen, ["", setting_words(results)])
    for figure in results.figures:
        points = without_columns(point_table(results, figure), *_ONLY_IN_REPORTS)
        screen.print()
        title = f"Figure {figure}: {FIGURES[figure].axis}"
        screen.print(text_table(title, points.head, points.rows))
        print_lines(screen, caveats(results, figure), style="dim")
    checked = (f"- {line.replace('**', '')}" for line in check_lines(results))
    where = f"\nresults.json, report.html, report.md and figures are in {out}"
    print_lines(screen, ["", *checked, where])
