"""`leakscope study dynamics`: when, during training, does each record become exposed?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from leakscope.cli.output import AsJson, DataDir, Out, Quiet


def dynamics(
    context: typer.Context,
    preset: Annotated[
        str,
        typer.Option(
            help="quick, mnist, architectures, optimizers, datasets or seed001 (the full baseline)."
        ),
    ] = "quick",
    dataset: Annotated[str, typer.Option(help="digits, mnist, fashion-mnist, cifar10, ...")] = "digits",
    net: Annotated[
        str,
        typer.Option(help="mlp, cnn, deep_cnn, resnet18, wide_resnet, ... or package.module:factory."),
    ] = "mlp",
    optimizer: Annotated[str, typer.Option(help="sgd, adamw or sam.")] = "sgd",
    models: Annotated[int, typer.Option(help="Models, each on a random half of the records.")] = 20,
    epochs: Annotated[int, typer.Option(help="Epochs of a model.")] = 60,
    every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 3,
    universe: Annotated[int | None, typer.Option(help="Use the first N records; by default all.")] = None,
    batch_size: Annotated[int, typer.Option(help="Batch size.")] = 64,
    lr: Annotated[float | None, typer.Option(help="Learning rate; by default 0.1, 0.001 for adamw.")] = None,
    precision: Annotated[str, typer.Option(help="Of training: float32 or bfloat16.")] = "float32",
    keep_logits: Annotated[
        bool, typer.Option("--logits/--no-logits", help="Keep all classes' answers, for uncertainty.")
    ] = True,
    gradient_models: Annotated[
        int, typer.Option(help="Models to train again for gradient norms (GraNd, TracIn).")
    ] = 0,
    attack: Annotated[
        str, typer.Option(help="Whose decisions: lira, eb_lira (slower); any with --fpr.")
    ] = "lira",
    fpr: Annotated[
        float | None, typer.Option(help="Decide at this FPR; by default at log ratio > 0.")
    ] = None,
    populations: Annotated[int, typer.Option(help="Independent populations of each setting.")] = 1,
    seed: Annotated[int, typer.Option(help="All randomness derives from it.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    out: Out = Path("runs/dynamics"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """When, during training, does each record become exposed? A preset, with your options on top."""
    from leakscope.cli.output import given_options, print_json, training_progress
    from leakscope.studies.dynamics.settings import Setting, config_of
    from leakscope.studies.dynamics.study import run

    config = config_of(preset, populations, attack, fpr, **given_options(context, Setting))
    with training_progress(config.n_models, shown=not (quiet or as_json)) as progress:
        results = run(config, out, device, data_dir, progress)
    if as_json:
        print_json(results)
    elif not quiet:
        _show(results, out)


def _show(results: dict[str, Any], out: Path) -> None:
    from leakscope.cli.attack import text_table
    from leakscope.cli.output import console
    from leakscope.studies.dynamics.report import (
        COMPARED,
        COMPARED_NOTE,
        RATIOS,
        SUMMARY,
        compared_rows,
        ratio_rows,
        summary_rows,
        words,
    )

    screen = console()
    screen.print()
    if len(results["runs"]) > 1:
        screen.print(text_table("Settings compared", COMPARED, compared_rows(results, with_errors=False)))
        screen.print(COMPARED_NOTE, style="dim", soft_wrap=True)
        if results["comparison"]:
            screen.print(text_table("Ratios beside the published ones", RATIOS, ratio_rows(results)))
    else:
        (run,) = results["runs"].values()
        for line in words(run):
            screen.print(line, soft_wrap=True)
        screen.print(text_table("Figures and their noise floor", SUMMARY, summary_rows(run)))
    screen.print(f"\nresults.json, records.parquet, report.md and figures are in {out}", soft_wrap=True)
