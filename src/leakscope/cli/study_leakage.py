"""`leakscope study leakage`: what drives membership leakage, five figures with their bias taken off."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leakscope.cli.output import AsJson, DataDir, Out, Quiet


def leakage(
    figure: Annotated[
        list[int] | None, typer.Option(help="1 to 5, may be repeated; by default all five.")
    ] = None,
    records: Annotated[int | None, typer.Option(help="Chosen records; by default from the budget.")] = None,
    trials: Annotated[
        int | None, typer.Option(help="K, trainings with and without a record in each of two halves.")
    ] = None,
    budget: Annotated[str, typer.Option(help="quick (a minute), standard (minutes) or thorough.")] = "quick",
    precision: Annotated[float, typer.Option(help="Grid the parameters are rounded to, figure 3.")] = 0.01,
    seed: Annotated[int, typer.Option(help="All randomness derives from it.")] = 0,
    data_dir: DataDir = None,
    out: Out = Path("runs/leakage"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """What does a model leak about one record, and how do size, ridge, features and noise change it?"""
    from leakscope.cli.output import print_json
    from leakscope.studies.leakage.study import FIGURES, budgeted, run
    from leakscope.studies.leakage.universe import choose_dataset

    figures = tuple(sorted(set(figure))) if figure else FIGURES
    config = budgeted(
        budget, figures=figures, records=records, trials=trials, precision=precision, seed=seed,
        dataset=choose_dataset(data_dir),
    )  # fmt: skip
    speaks = not (quiet or as_json)
    results = run(config, out, data_dir, _to_stderr if speaks else lambda _: None)
    if as_json:
        print_json(results)
    elif speaks:
        _show(results, out)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(results: dict[str, Any], out: Path) -> None:
    from leakscope.cli.attack import text_table
    from leakscope.cli.output import console
    from leakscope.studies.leakage.report import AXES, check_lines, poor_words, setting_words

    screen = console()
    screen.print()
    screen.print(setting_words(results), soft_wrap=True)
    for name in results["figures"]:
        screen.print()
        screen.print(text_table(f"Figure {name}: {AXES[name]}", *_table(results, name)))
        for line in filter(None, poor_words(results, name)):
            screen.print(line, style="dim", soft_wrap=True)
    screen.print()
    for line in check_lines(results):
        screen.print(line.replace("**", ""), soft_wrap=True)
    screen.print(f"\nresults.json, report.md and figures are in {out}", soft_wrap=True)


def _table(results: dict[str, Any], name: str) -> tuple[list[str], list[list[str]]]:
    from leakscope.studies.leakage.report import FINE, interval, number

    head = ["", "advantage (median)", "rho_KL (nats)", "95% interval", "floor", "rho_MI (bits)"]
    head += ["rho_KL, finite precision"] if name == "3" else []
    rows = []
    for point in results["figures"][name]["points"]:
        rho = point["rho_kl"]
        rows.append([number(point["value"]), f"{point['advantage']['median']:.3f}", number(rho["mean"]),
                     interval(rho), number(rho["floor"]), number(point["rho_mi_bits"]["mean"]),
                     *([number(point[FINE]["mean"])] if name == "3" else [])])  # fmt: skip
    return head, rows
