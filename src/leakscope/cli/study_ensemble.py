"""`leakscope study ensemble`: the published attack on one given model, from scratch."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, DataDir, Out, Quiet

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.studies.ensemble.results import EnsembleResults

_Number = int | None


def ensemble(
    context: typer.Context,
    preset: Annotated[
        str,
        typer.Option(
            help="full (ResNet-18 on CIFAR-10, 20,000 + 20,000 records), small (mlp on digits), or auto: "
            "full if there are a GPU and the images. Other options change the preset."
        ),
    ] = "auto",
    dataset: Annotated[str | None, typer.Option(help="See leakscope data list.")] = None,
    net: Annotated[str | None, typer.Option(help="Target: mlp, cnn, ... or package.module:factory.")] = None,
    n_public: Annotated[_Number, typer.Option(help="Public records (default: half, at most 20,000).")] = None,
    n_private: Annotated[_Number, typer.Option(help="Private records (same default).")] = None,
    width: Annotated[_Number, typer.Option(help="Width of an mlp, channels of a cnn or resnet18.")] = None,
    epochs: Annotated[_Number, typer.Option(help="Epochs of the target.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of the target (Adam).")] = None,
    batch_size: Annotated[_Number, typer.Option(help="Batch size of the target.")] = None,
    attacker: Annotated[
        str | None, typer.Option(help="best (of all three; the default), forest, lightgbm or mlp.")
    ] = None,
    validation_share: Annotated[
        float | None,
        typer.Option(help="Share of the public records held out for validation (default: 0.25)."),
    ] = None,
    seed: Annotated[_Number, typer.Option(help="Seed of all randomness (default: 0).")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    out: Out = Path("runs/ensemble"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Attack one given model with public records, then compare the submission with the truth."""
    from leakscope.cli.output import given_options, show_results, training_progress
    from leakscope.studies.ensemble.config import EnsembleConfig, configured
    from leakscope.studies.ensemble.study import run

    config = configured(preset, given_options(context, EnsembleConfig), device, data_dir)
    verbose = not (quiet or as_json)
    if verbose:
        target = f"{config.net} on {config.dataset}, {config.epochs} epochs"
        print(f"training the target, {target}", file=sys.stderr, flush=True)
    # There is one model: a log would count from 0 to 1, only a bar says something.
    with training_progress(1, shown=verbose and sys.stderr.isatty()) as progress:
        results = run(config, out, device, data_dir, progress)
    show_results(results, partial(_show, results, out), quiet, as_json)


def _show(results: EnsembleResults, out: Path, screen: Console) -> None:
    from leakscope.cli.output import print_lines, text_table
    from leakscope.single_model.report import DEFINITIONS, TRUTH_TITLE, notes, ranking
    from leakscope.studies.ensemble.report import NOTE, comparison, target_sentence

    rates, chosen = comparison(results), results.chosen
    ranked = f"On the private records, {ranking(chosen, results.private_truth[chosen].auc)}"
    print_lines(screen, ["", target_sentence(results), ranked, ""])
    screen.print(text_table(TRUTH_TITLE, rates.head, rates.rows))
    print_lines(screen, [NOTE, *DEFINITIONS, *notes(results)], style="dim")
    print_lines(screen, [f"\nsubmission.csv, results.json and report.html are in {out}"])
