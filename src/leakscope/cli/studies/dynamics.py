"""`leakscope study dynamics`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.claims import Claims, write_claims
from leakscope.cli.output import (
    AsJson,
    DataDir,
    Device,
    Out,
    Quiet,
    Redact,
    Seed,
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

    from leakscope.studies.dynamics.given_bank import GivenBank
    from leakscope.studies.dynamics.results import DynamicsResults
    from leakscope.studies.dynamics.settings import DynamicsConfig


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
    dropout: Annotated[
        float,
        typer.Option(help="Probability of dropout; with --gradient-models, a third estimate of uncertainty."),
    ] = 0.0,
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
    design: Annotated[
        str, typer.Option(help="Who is in which training set: balanced, bernoulli or pairs.")
    ] = "balanced",
    bank: Annotated[
        Path | None,
        typer.Option(
            help="Judge models that were trained elsewhere, from their outputs: an npz file or a folder of "
            ".npy files. --dataset, --net, --optimizer, ... then say how they were trained."
        ),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Follow your own records and network: the config file (TOML) of an audit, with its sections "
            "data, model, training and population.",
        ),
    ] = None,
    claims: Claims = None,
    seed: Seed = 0,
    device: Device = "auto",
    data_dir: DataDir = None,
    out: Out = Path("runs/dynamics"),
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure when, during training, each record becomes exposed.

    Runs a preset; the options you give replace those of the preset.
    """
    from leakscope.studies.dynamics.claims import PUBLICATION
    from leakscope.studies.dynamics.settings import Setting, config_of
    from leakscope.studies.dynamics.study import run, run_on_bank
    from leakscope.studies.dynamics.subject import read_subject

    if claims is not None:
        write_claims(PUBLICATION, claims, quiet)
        return
    given = {name: value for name, value in given_options(context, Setting).items() if name != "bank"}
    if bank is not None:
        config, outputs = _config_of_bank(bank, attack, fpr, given)
        results = run_on_bank(config, outputs, out, Disclosure(redact), data_dir)
    else:
        subject, config = None, config_of(preset, populations, attack, fpr, **given)
        if config_file is not None:
            subject, setting = read_subject(config_file, data_dir, given)
            config = config_of((setting,), populations, attack, fpr)
        with training_progress(config.n_models, out, shown=not (quiet or as_json)) as progress:
            results = run(config, out, device, data_dir, progress, subject, Disclosure(redact))
    show_results(results, partial(_show_dynamics, results, out), quiet, as_json)


def _config_of_bank(
    path: Path, attack: str, fpr: float | None, described: dict[str, Any]
) -> tuple[DynamicsConfig, GivenBank]:
    """The models' outputs, and what to compute from them."""
    from leakscope.studies.dynamics.given_bank import read_given_bank
    from leakscope.studies.dynamics.settings import DynamicsConfig, Setting

    own = sorted(described.keys() & {"models", "epochs", "every", "universe", "store_logits"})
    if own:
        raise InputError(f"{', '.join(own)}: set by the bank; leave the option out")
    given = read_given_bank(path)
    config = DynamicsConfig((given.setting(Setting(**described)),), attack, fpr)
    config.resolved_attack()
    return config, given


def _show_dynamics(results: DynamicsResults, out: Path, screen: Console) -> None:
    from leakscope.studies.dynamics import report

    screen.print()
    if len(results.runs) > 1:
        rows = report.compared_rows(results, with_errors=False)
        screen.print(text_table("Comparison of settings", report.COMPARED, rows))
        print_lines(screen, [report.COMPARED_NOTE], style="dim")
    else:
        (run,) = results.runs.values()
        print_lines(screen, report.sentences(run))
        screen.print(text_table("Figures and noise floors", report.SUMMARY, report.summary_rows(run)))
    print_lines(screen, [where_files_are(out, "results.json", "records.parquet")])
