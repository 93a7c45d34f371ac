"""`leakscope study ensemble`: the published attack on one given model, from scratch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leakscope.cli.output import AsJson, DataDir, Out, Quiet


def ensemble(
    context: typer.Context,
    preset: Annotated[
        str, typer.Option(help="full (ResNet-18, CIFAR-10, 20,000 + 20,000), small (digits), or auto.")
    ] = "auto",
    dataset: Annotated[str, typer.Option(help="digits, cifar10, ...; see leakscope data list.")] = "digits",
    net: Annotated[str, typer.Option(help="Target: mlp, cnn, ... or package.module:factory.")] = "mlp",
    n_public: Annotated[int | None, typer.Option(help="Public records; by default half, to 20,000.")] = None,
    n_private: Annotated[int | None, typer.Option(help="Private records; the same.")] = None,
    width: Annotated[int, typer.Option(help="Width of an mlp, channels of a cnn.")] = 64,
    epochs: Annotated[int, typer.Option(help="Epochs of the target.")] = 100,
    lr: Annotated[float, typer.Option(help="Its learning rate (Adam).")] = 0.003,
    batch_size: Annotated[int, typer.Option(help="Its batch size.")] = 64,
    attacker: Annotated[str, typer.Option(help="best (of all three), forest, lightgbm or mlp.")] = "best",
    validation_share: Annotated[float, typer.Option(help="Share of public records to judge on.")] = 0.25,
    seed: Annotated[int, typer.Option(help="All randomness derives from it.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    out: Out = Path("runs/ensemble"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Attack one given model with public records, then score the submission against the private truth."""
    from leakscope.cli.output import print_json, training_progress
    from leakscope.studies.ensemble.study import run

    config = _config(context, preset, device, data_dir)
    speaks = not (quiet or as_json)
    if speaks:
        target = f"{config.net} on {config.dataset}, {config.epochs} epochs"
        print(f"training the target, {target}", file=sys.stderr, flush=True)
    # One model: lines of a log would count from 0 to 1, a bar moves.
    with training_progress(1, shown=speaks and sys.stderr.isatty()) as progress:
        results = run(config, out, device, data_dir, progress)
    if as_json:
        print_json(results)
    elif speaks:
        _show(results, out)


def _config(context: typer.Context, preset: str, device: str, data_dir: Path | None) -> Any:
    """The preset's configuration with every option the user gave on top."""
    from leakscope.cli.output import given_options
    from leakscope.errors import InputError
    from leakscope.studies.ensemble.study import PRESETS, EnsembleConfig, fitting_preset

    if preset not in (*PRESETS, "auto"):
        raise InputError(f"preset={preset!r}: choose {', '.join(PRESETS)} or auto")
    given = given_options(context, EnsembleConfig)
    names_the_case = {"dataset", "net"} & set(given)
    chosen = "small" if names_the_case else fitting_preset(device, data_dir) if preset == "auto" else preset
    return EnsembleConfig(**{**PRESETS[chosen], **given})


def _show(results: dict[str, Any], out: Path) -> None:
    from leakscope.cli.attack import text_table
    from leakscope.cli.output import console
    from leakscope.single_model.report import footnotes
    from leakscope.studies.ensemble.study import COMPARISON, comparison_rows, target_words

    screen = console()
    screen.print()
    screen.print(target_words(results), soft_wrap=True)
    screen.print()
    screen.print(text_table("Validation, truth and publication", COMPARISON, comparison_rows(results)))
    for line in footnotes(results):
        screen.print(line, style="dim", soft_wrap=True)
    screen.print(f"\nsubmission.csv, results.json, report.md and the figure are in {out}", soft_wrap=True)
