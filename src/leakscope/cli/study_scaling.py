"""`leakscope study scaling`: does model size or overfitting drive membership leakage?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, Out, Quiet

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.studies.scaling.config import ScalingConfig
    from leakscope.studies.scaling.results import ScalingResults


def scaling(
    context: typer.Context,
    preset: Annotated[
        str, typer.Option(help="published, or decisive: 22 widths, 60 repeats, new data for each.")
    ] = "published",
    widths: Annotated[str, typer.Option(help="Hidden widths, separated by commas.")] = "16,32,64,128,256",
    n_repeats: Annotated[int, typer.Option(help="Repeats per width.")] = 3,
    n_shadow: Annotated[int, typer.Option(help="Shadow models per target.")] = 3,
    n_reference: Annotated[
        int, typer.Option(help="Reference models per target, on halves of its records, for LiRA.")
    ] = 16,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 42,
    n_samples: Annotated[int, typer.Option(help="Records per dataset.")] = 500,
    n_features: Annotated[int, typer.Option(help="Features of a record.")] = 10,
    n_classes: Annotated[int, typer.Option(help="Number of classes.")] = 5,
    train_fraction: Annotated[float, typer.Option(help="Share of the records in a training set.")] = 0.5,
    shadow_data: Annotated[
        str, typer.Option(help="Class centers of shadow models: redrawn (as published) or same.")
    ] = "redrawn",
    target_data: Annotated[
        str, typer.Option(help="Target records of the repeats: fixed (as published) or redrawn.")
    ] = "fixed",
    out: Out = Path("runs/scaling"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Does model size or overfitting drive membership leakage? MLPs of many widths on Gaussian classes."""
    from leakscope.cli.output import show_results, training_progress
    from leakscope.studies.scaling.study import run

    config = _config(context)
    with training_progress(config.n_models, shown=not (quiet or as_json)) as progress:
        results = run(config, out, progress)
    show_results(results, partial(_show, results, out), quiet, as_json)


def _config(context: typer.Context) -> ScalingConfig:
    """The preset's configuration with every option the user gave on top."""
    from dataclasses import replace

    from leakscope.cli.output import given_options, numbers
    from leakscope.errors import InputError
    from leakscope.studies.scaling.config import PRESETS, ScalingConfig

    preset = context.params["preset"]
    if preset not in PRESETS:
        raise InputError(f"preset={preset!r}: choose {' or '.join(PRESETS)}")
    given = given_options(context, ScalingConfig)
    if "widths" in given:
        given["widths"] = numbers(given["widths"], int, "widths", "whole numbers", "16,32,64")
    return replace(PRESETS[preset], **given)


def _show(results: ScalingResults, out: Path, screen: Console) -> None:
    from leakscope.cli.output import print_lines, text_table
    from leakscope.studies.scaling.page import ranked_findings, width_table

    widths = width_table(results, with_spread=False)
    screen.print()
    title = f"Accuracy and attack AUC, mean over {results.config.n_repeats} repeats"
    screen.print(text_table(title, widths.head, widths.rows))
    screen.print()
    for finding in ranked_findings(results):
        screen.print(f"- {finding.answer} {finding.evidence}")
    print_lines(screen, [f"\nresults.json, report.html, report.md and figures are in {out}"])
