"""`leakscope study dynamics`: when, during training, does each record become exposed?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import (
    AsJson,
    DataDir,
    Out,
    Quiet,
    given_options,
    print_lines,
    show_results,
    text_table,
    training_progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.studies.dynamics.results import DynamicsResults


def dynamics(
    context: typer.Context,
    preset: Annotated[
        str,
        typer.Option(
            help="quick, mnist, architectures, optimizers, datasets, or published (the baseline of "
            "arXiv 2507.23291)."
        ),
    ] = "quick",
    dataset: Annotated[
        str, typer.Option(help="digits, mnist, fashion-mnist, cifar10, ... or package.module:function.")
    ] = "digits",
    net: Annotated[
        str,
        typer.Option(help="mlp, cnn, deep_cnn, resnet18, wide_resnet, ... or package.module:factory."),
    ] = "mlp",
    optimizer: Annotated[str, typer.Option(help="sgd, adamw or sam.")] = "sgd",
    models: Annotated[int, typer.Option(help="Number of models, each on a random half of the records.")] = 20,
    epochs: Annotated[int, typer.Option(help="Epochs of training.")] = 60,
    every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 3,
    universe: Annotated[
        int | None, typer.Option(help="Use only the first N records of the dataset (default: all).")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Batch size.")] = 64,
    lr: Annotated[float | None, typer.Option(help="Learning rate (default: 0.1; 0.001 for adamw).")] = None,
    precision: Annotated[str, typer.Option(help="Precision of training: float32 or bfloat16.")] = "float32",
    store_logits: Annotated[
        bool,
        typer.Option("--logits/--no-logits", help="Store the logits of all classes, for uncertainty."),
    ] = True,
    gradient_models: Annotated[
        int, typer.Option(help="Number of models to retrain for gradient norms (GraNd, TracIn).")
    ] = 0,
    attack: Annotated[
        str,
        typer.Option(
            help="The attack that decides: eb_lira, 'lira(variance=record)', my_package:MyAttack, ... "
            "Attacks whose score is not a log likelihood ratio need --fpr."
        ),
    ] = "lira",
    fpr: Annotated[
        float | None,
        typer.Option(help="Decide at this false positive rate (default: at a log likelihood ratio of 0)."),
    ] = None,
    populations: Annotated[int, typer.Option(help="Independent populations of each setting.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    out: Out = Path("runs/dynamics"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure when, during training, each record becomes exposed.

    Runs a preset; the options you give replace those of the preset.
    """
    from leakscope.studies.dynamics.settings import Setting, config_of
    from leakscope.studies.dynamics.study import run

    config = config_of(preset, populations, attack, fpr, **given_options(context, Setting))
    with training_progress(config.n_models, shown=not (quiet or as_json)) as progress:
        results = run(config, out, device, data_dir, progress)
    show_results(results, partial(_show, results, out), quiet, as_json)


def _show(results: DynamicsResults, out: Path, screen: Console) -> None:
    from leakscope.studies.dynamics import report

    screen.print()
    if len(results.runs) > 1:
        rows = report.compared_rows(results, with_errors=False)
        screen.print(text_table("Comparison of settings", report.COMPARED, rows))
        print_lines(screen, [report.COMPARED_NOTE], style="dim")
        if results.comparison:
            ratios = report.ratio_rows(results)
            screen.print(text_table("Ratios next to the published ones", report.RATIOS, ratios))
    else:
        (run,) = results.runs.values()
        print_lines(screen, report.sentences(run, results.published))
        screen.print(text_table("Figures and noise floors", report.SUMMARY, report.summary_rows(run)))
    written = "report.html, report.md, results.json, records.parquet and figures"
    print_lines(screen, [f"\nWrote {written} to {out}"])
