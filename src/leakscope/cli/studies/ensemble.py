"""`leakscope study ensemble`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.attack import Confidence, Entropy, Gradient
from leakscope.cli.claims import Claims, write_claims
from leakscope.cli.output import (
    AsJson,
    DataDir,
    Device,
    Out,
    Quiet,
    Redact,
    console,
    given_options,
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

    from leakscope.studies.ensemble.results import EnsembleResults

_Number = int | None


def ensemble(
    context: typer.Context,
    preset: Annotated[
        str,
        typer.Option(
            help="full (ResNet-18 on CIFAR-10, 20,000 + 20,000 records), small (mlp on overlapping classes), "
            "or auto: full if there are a GPU and the images. Other options change the preset."
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
    entropy: Entropy = "modified",
    gradient: Gradient = "norm",
    confidence: Confidence = "log_odds",
    seed: Annotated[_Number, typer.Option(help="Seed of all randomness (default: 0).")] = None,
    record_only: Annotated[
        bool,
        typer.Option("--record-only", help="Train the target, write its outputs.npz, and stop."),
    ] = False,
    recorded: Annotated[
        Path | None,
        typer.Option("--from", help="Train nothing: attack the target whose outputs.npz this is."),
    ] = None,
    claims: Claims = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    out: Out = Path("runs/ensemble"),
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Attack one given model with public records, then compare the submissions with the truth."""
    from leakscope.studies.ensemble.claims import PUBLICATION
    from leakscope.studies.ensemble.config import EnsembleConfig, configured
    from leakscope.studies.ensemble.study import record, run, run_from

    if claims is not None:
        write_claims(PUBLICATION, claims, quiet)
        return
    given = given_options(context, EnsembleConfig)
    if recorded is not None and record_only:
        raise InputError("--from and --record-only exclude each other: the target is recorded already")
    if recorded is not None:
        results = run_from(recorded, out, given, disclosure=Disclosure(redact))
        show_results(results, partial(_show_ensemble, results, out), quiet, as_json)
        return
    config = configured(preset, given, device, data_dir)
    verbose = not (quiet or as_json)

    def training_starts() -> None:
        if verbose:
            target = f"{config.net} on {config.dataset}, {config.epochs} epochs"
            print(f"training the target, {target}", file=sys.stderr, flush=True)

    # There is one model: a log would count from 0 to 1, only a bar says something.
    with training_progress(1, out, shown=verbose and sys.stderr.isatty()) as progress:
        if record_only:
            file = record(config, out, device, data_dir, progress, training_starts=training_starts)
        else:
            hide = Disclosure(redact)
            results = run(
                config, out, device, data_dir, progress, disclosure=hide, training_starts=training_starts
            )
    if not record_only:
        show_results(results, partial(_show_ensemble, results, out), quiet, as_json)
    elif verbose:
        print_lines(console(), [f"Wrote {file}; attack it with: leakscope study ensemble --from {file}"])


def _show_ensemble(results: EnsembleResults, out: Path, screen: Console) -> None:
    from leakscope.single_model.report import DEFINITIONS, TRUTH_TITLE, notes, ranking
    from leakscope.studies.ensemble.report import NOTE
    from leakscope.studies.ensemble.tables import comparison, target_sentence

    rates, chosen = comparison(results), results.chosen
    ranked = f"On the private records, {ranking(chosen, results.private_truth[chosen].auc)}"
    print_lines(screen, ["", target_sentence(results), ranked, ""])
    screen.print(text_table(TRUTH_TITLE, rates.head, rates.rows))
    print_lines(screen, [NOTE, *DEFINITIONS, *notes(results)], style="dim")
    print_lines(screen, [where_files_are(out, "submission_*.csv", "results.json")])
