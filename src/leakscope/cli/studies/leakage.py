"""`leakscope study leakage`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.claims import Claims, write_claims
from leakscope.cli.output import (
    AsJson,
    DataDir,
    Out,
    Quiet,
    Redact,
    Seed,
    print_lines,
    show_results,
    text_table,
    where_files_are,
)
from leakscope.disclosure import Disclosure

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
        int | None,
        typer.Option(help="Training runs with and without each record, in each of two halves (K)."),
    ] = None,
    extension: Annotated[
        list[str] | None,
        typer.Option(
            help="limits (of Theorem 3), privacy (Gaussian mechanism) or regularizer; may be given several "
            "times (default: all, or none where --figure is given)."
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="quick (minutes), standard (several times as long) or thorough.")
    ] = "quick",
    precision: Annotated[
        float, typer.Option(help="Step of the grid to which parameters are rounded, in figure 3 and limits.")
    ] = 0.01,
    prior: Annotated[
        list[float] | None,
        typer.Option(
            help="Prior probability of membership at which to compute rho_MI, beside 1/2 and n/N; may be "
            "given several times."
        ),
    ] = None,
    claims: Claims = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    out: Out = Path("runs/leakage"),
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a model reveals about one record, and how size, ridge, features and noise change it."""
    from leakscope.studies.leakage.claims import PUBLICATION
    from leakscope.studies.leakage.config import with_budget
    from leakscope.studies.leakage.study import run
    from leakscope.studies.leakage.universe import available_dataset

    if claims is not None:
        write_claims(PUBLICATION, claims, quiet)
        return
    config = with_budget(
        budget, figures=tuple(sorted(set(figure))) if figure else None,
        extensions=tuple(sorted(set(extension))) if extension else None, records=records, trials=trials,
        precision=precision, priors=tuple(sorted(set(prior or ()))), seed=seed,
        dataset=available_dataset(data_dir),
    )  # fmt: skip
    is_verbose = not (quiet or as_json)
    log = _to_stderr if is_verbose else lambda _: None
    results = run(config, out, data_dir, log, Disclosure(redact))
    show_results(results, partial(_show_leakage, results, out), quiet, as_json)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show_leakage(results: LeakageResults, out: Path, screen: Console) -> None:
    from leakscope.studies.claims import counted
    from leakscope.studies.leakage.claims import PUBLICATION
    from leakscope.studies.leakage.config import FIGURES
    from leakscope.studies.leakage.page import caveats, check_lines
    from leakscope.studies.leakage.page_tables import output_table, point_table, without_columns
    from leakscope.studies.leakage.page_words import setting_words

    print_lines(screen, ["", setting_words(results)])
    for figure in results.figures:
        points = without_columns(point_table(results, figure), *_ONLY_IN_REPORTS)
        screen.print()
        title = f"Figure {figure}: {FIGURES[figure].axis}"
        screen.print(text_table(title, points.head, points.rows))
        output = output_table(results, figure)
        screen.print(text_table(output.caption, output.head, output.rows))
        print_lines(screen, caveats(results, figure), style="dim")
    settled = f"\nThe publication's claims: {counted(PUBLICATION.settle([results]))}"
    checked = (f"- {line.replace('**', '')}" for line in check_lines(results))
    print_lines(screen, [settled, "", *checked, where_files_are(out, "results.json")])
