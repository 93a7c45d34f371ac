"""`leakscope study`: published experiments, reproduced and decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli import study_dynamics, study_ensemble, study_leakage
from leakscope.cli.output import AsJson, Out, Quiet

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Published experiments, reproduced and decided.", no_args_is_help=True)
app.command("ensemble")(study_ensemble.ensemble)
app.command("dynamics")(study_dynamics.dynamics)
app.command("leakage")(study_leakage.leakage)


@app.callback()
def _root() -> None:
    """Published experiments, reproduced and decided."""


@app.command()
def scaling(
    context: typer.Context,
    widths: Annotated[str, typer.Option(help="Hidden widths, comma-separated.")] = "16,32,64,128,256",
    n_repeats: Annotated[int, typer.Option(help="Repeats a width.")] = 3,
    n_shadow: Annotated[int, typer.Option(help="Shadow models a target.")] = 3,
    n_reference: Annotated[
        int, typer.Option(help="Models a target for LiRA, on halves of its records.")
    ] = 16,
    seed: Annotated[int, typer.Option(help="All randomness derives from it.")] = 42,
    n_samples: Annotated[int, typer.Option(help="Records in a dataset.")] = 500,
    n_features: Annotated[int, typer.Option(help="Features of a record.")] = 10,
    n_classes: Annotated[int, typer.Option(help="Classes.")] = 5,
    train_fraction: Annotated[float, typer.Option(help="Share of the records in the training set.")] = 0.5,
    shadow_data: Annotated[
        str, typer.Option(help="Shadows' class centres: redrawn (as published) or same.")
    ] = "redrawn",
    target_data: Annotated[
        str, typer.Option(help="Target records over repeats: fixed (as published) or redrawn.")
    ] = "fixed",
    preset: Annotated[
        str, typer.Option(help="published, or decisive: 22 widths, 60 repeats, fresh data.")
    ] = "published",
    out: Out = Path("runs/scaling"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Does model size or overfitting drive membership leakage? MLPs of many widths on Gaussian classes."""
    from leakscope.cli.output import print_json, training_progress
    from leakscope.studies.scaling.study import run

    config = _scaling_config(context)
    n_models = len(config.widths) * config.n_repeats * config.models_per_repeat
    with training_progress(n_models, shown=not (quiet or as_json)) as progress:
        results = run(config, out, progress)
    if as_json:
        print_json(results)
    elif not quiet:
        _show(results, out)


def _scaling_config(context: typer.Context) -> Any:
    """The preset's configuration with every option the user gave on top."""
    from leakscope.cli.output import given_options
    from leakscope.errors import InputError
    from leakscope.studies.scaling.study import PRESETS, ScalingConfig

    preset = context.params["preset"]
    if preset not in PRESETS:
        raise InputError(f"preset={preset!r}: choose {' or '.join(PRESETS)}")
    given = given_options(context, ScalingConfig)
    if "widths" in given:
        given["widths"] = _whole_numbers(given["widths"])
    return ScalingConfig(**{**PRESETS[preset], **given})


def _whole_numbers(text: str) -> tuple[int, ...]:
    from leakscope.errors import InputError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"widths={text!r}: give whole numbers separated by commas, like 16,32,64") from error


def _show(results: dict[str, Any], out: Path) -> None:
    from leakscope.cli.output import console

    screen = console()
    screen.print()
    screen.print(_table(results))
    screen.print()
    for name, found in results["gap_or_size"].items():
        if name != "correctness":  # its AUC is the gap itself, up to a factor
            screen.print(f"- {found['answer']}")
    screen.print(f"\nresults.json, report.md and figures are in {out}", soft_wrap=True)


def _table(results: dict[str, Any]) -> Table:
    from rich.table import Table

    n_repeats = results["config"]["n_repeats"]
    table = Table(title=f"Mean over {n_repeats} repeats", title_justify="left")
    attacks = list(results["results"][0]["attacks"])
    headings = ("width", "parameters", "train acc", "test acc", "gap", *(f"{a} AUC" for a in attacks))
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in results["results"]:
        rates = [row["mean_train_acc"], row["mean_test_acc"], row["mean_overfit_gap"]]
        aucs = [row["attacks"][a]["mean_auc"] for a in attacks]
        numbers = (f"{value:.3f}" for value in (*rates, *aucs))
        table.add_row(f"{row['hidden_width']}", f"{row['n_params']:,}", *numbers)
    return table
