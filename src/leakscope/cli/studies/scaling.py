"""`leakscope study scaling`."""

from __future__ import annotations

from dataclasses import replace
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
    given_options,
    numbers,
    print_lines,
    show_results,
    text_table,
    training_progress,
    where_files_are,
)
from leakscope.disclosure import Disclosure
from leakscope.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.studies.scaling.config import ScalingConfig
    from leakscope.studies.scaling.results import ScalingResults


def scaling(
    context: typer.Context,
    preset: Annotated[
        str,
        typer.Option(
            help="published (40 initializations, and the publication's own seeds), wide (the same at 22 "
            "widths) or decisive (22 widths, 60 repeats, new data for each). Other options change the preset."
        ),
    ] = "published",
    widths: Annotated[str, typer.Option(help="Hidden widths, separated by commas.")] = "16,32,64,128,256",
    n_repeats: Annotated[int, typer.Option(help="Repeats per width.")] = 3,
    n_shadow: Annotated[int, typer.Option(help="Shadow models per target.")] = 3,
    n_reference: Annotated[
        int, typer.Option(help="Reference models per target, on halves of its records, for LiRA.")
    ] = 16,
    seed: Seed = 42,
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
    class_sd: Annotated[float, typer.Option(help="Standard deviation of a Gaussian class.")] = 1.5,
    dataset: Annotated[
        str,
        typer.Option(
            help="gaussian (as published), another one (leakscope data list), or module:function; "
            "targets then use a random half of it, shadow models the other."
        ),
    ] = "gaussian",
    attacker: Annotated[
        str,
        typer.Option(
            help="Classifier of the shadow-model attack: logistic (as published), forest, mlp, or "
            "module:factory of any scikit-learn classifier."
        ),
    ] = "logistic",
    n_initializations: Annotated[
        int, typer.Option(help="Training runs of targets and shadow models, each from other initial weights.")
    ] = 40,
    published_seeds: Annotated[
        bool, typer.Option(help="Also train with the publication's own seeds of torch (gaussian only).")
    ] = True,
    dropout: Annotated[
        float, typer.Option(help="Probability of dropout after the hidden layer (published: none).")
    ] = 0.0,
    weight_decay: Annotated[float, typer.Option(help="Adam's weight decay (published: none).")] = 0.0,
    claims: Claims = None,
    data_dir: DataDir = None,
    out: Out = Path("runs/scaling"),
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Does model size or overfitting drive membership leakage? MLPs of many widths."""
    from leakscope.studies.scaling.claims import PUBLICATION
    from leakscope.studies.scaling.study import run

    if claims is not None:
        write_claims(PUBLICATION, claims, quiet)
        return
    config = _scaling_config(context)
    with training_progress(config.n_models, out, shown=not (quiet or as_json)) as progress:
        results = run(config, out, progress, data_dir, Disclosure(redact))
    show_results(results, partial(_show_scaling, results, out), quiet, as_json)


def _scaling_config(context: typer.Context) -> ScalingConfig:
    """The preset's configuration with every option the user gave on top."""
    from leakscope.studies.scaling.config import PRESETS, ScalingConfig

    preset = context.params["preset"]
    if preset not in PRESETS:
        raise InputError(f"preset={preset!r}: choose {', '.join(PRESETS)}")
    given = given_options(context, ScalingConfig)
    source = context.get_parameter_source("widths")
    if source and source.name != "DEFAULT":
        text = context.params["widths"]
        given["hidden_widths"] = numbers(text, int, "widths", "whole numbers", "16,32,64")
    return replace(PRESETS[preset], **given)


def _show_scaling(results: ScalingResults, out: Path, screen: Console) -> None:
    from leakscope.studies.scaling.page import ranked_findings
    from leakscope.studies.scaling.tables import width_table

    widths = width_table(results, with_spread=False)
    screen.print()
    title = f"Accuracy and attack AUC, mean over {results.config.n_repeats} repeats"
    screen.print(text_table(title, widths.head, widths.rows))
    screen.print()
    for finding in ranked_findings(results):
        screen.print(f"- {finding.answer} {finding.evidence}")
    print_lines(screen, [where_files_are(out, "results.json")])
