"""`leakscope study`: published experiments, one command each."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Seed,
    console,
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

    from leakscope.studies.dynamics.given_bank import GivenBank
    from leakscope.studies.dynamics.results import DynamicsResults
    from leakscope.studies.dynamics.settings import DynamicsConfig
    from leakscope.studies.ensemble.results import EnsembleResults
    from leakscope.studies.leakage.results import LeakageResults
    from leakscope.studies.scaling.config import ScalingConfig
    from leakscope.studies.scaling.results import ScalingResults

app = typer.Typer(help="Reproduce published experiments.", no_args_is_help=True)

_Number = int | None
_ONLY_IN_REPORTS = ("advantage (mean)", "rho_KL (median)", "uncorrected")
"""Columns of the leakage study that do not fit a terminal."""


@app.command()
def scaling(
    context: typer.Context,
    preset: Annotated[
        str,
        typer.Option(
            help="published (40 initializations, and the publication's own seeds), or decisive: 22 widths, "
            "60 repeats, new data for each. Other options change the preset."
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
            help="gaussian (as published), another one (leakscope data list), or package.module:function; "
            "targets then use a random half of it, shadow models the other."
        ),
    ] = "gaussian",
    attacker: Annotated[
        str,
        typer.Option(
            help="Classifier of the shadow-model attack: logistic (as published), forest, mlp, or "
            "package.module:factory of any scikit-learn classifier."
        ),
    ] = "logistic",
    n_initializations: Annotated[
        int, typer.Option(help="Trainings of targets and shadow models, each from other initial weights.")
    ] = 40,
    published_seeds: Annotated[
        bool, typer.Option(help="Also train with the publication's own seeds of torch (gaussian only).")
    ] = True,
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
        raise InputError(f"preset={preset!r}: choose {' or '.join(PRESETS)}")
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


@app.command()
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
            help="Follow your own records and network: the config file (TOML) of an audit, with [data], "
            "[model], [training] and [population].",
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
        results = run_on_bank(*_config_of_bank(bank, attack, fpr, given), out, Disclosure(redact))
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
        raise InputError(f"{', '.join(own)}: the bank itself says so; leave the option out")
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


@app.command()
def leakage(
    figure: Annotated[
        list[int] | None, typer.Option(help="Figure 1 to 5; may be given several times (default: all).")
    ] = None,
    records: Annotated[int | None, typer.Option(help="Records to measure (default: by budget).")] = None,
    trials: Annotated[
        int | None, typer.Option(help="Trainings with and without each record, in each of two halves (K).")
    ] = None,
    extension: Annotated[
        list[str] | None,
        typer.Option(
            help="limits (of Theorem 3), privacy (Gaussian mechanism) or regularizer; may be given several "
            "times (default: all, or none where --figure is given)."
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="quick (minutes), standard (several times as long) or thorough.")
    ] = "quick",
    precision: Annotated[
        float, typer.Option(help="Step of the grid to which parameters are rounded, in figure 3 and limits.")
    ] = 0.01,
    claims: Claims = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    out: Out = Path("runs/leakage"),
    redact: Redact = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a model reveals about one record, and how size, ridge, features and noise change it."""
    from leakscope.studies.leakage.claims import PUBLICATION
    from leakscope.studies.leakage.config import with_budget
    from leakscope.studies.leakage.study import run
    from leakscope.studies.leakage.universe import available_dataset

    if claims is not None:
        write_claims(PUBLICATION, claims, quiet)
        return
    config = with_budget(
        budget, figures=tuple(sorted(set(figure))) if figure else None,
        extensions=tuple(sorted(set(extension))) if extension else None, records=records, trials=trials,
        precision=precision, seed=seed, dataset=available_dataset(data_dir),
    )  # fmt: skip
    is_verbose = not (quiet or as_json)
    log = _to_stderr if is_verbose else lambda _: None
    results = run(config, out, data_dir, log, Disclosure(redact))
    show_results(results, partial(_show_leakage, results, out), quiet, as_json)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show_leakage(results: LeakageResults, out: Path, screen: Console) -> None:
    from leakscope.studies.claims import counted
    from leakscope.studies.leakage.claims import PUBLICATION
    from leakscope.studies.leakage.config import FIGURES
    from leakscope.studies.leakage.page import caveats, check_lines, point_table, without_columns
    from leakscope.studies.leakage.page_words import output_table, setting_words

    print_lines(screen, ["", setting_words(results)])
    for figure in results.figures:
        points = without_columns(point_table(results, figure), *_ONLY_IN_REPORTS)
        screen.print()
        title = f"Figure {figure}: {FIGURES[figure].axis}"
        screen.print(text_table(title, points.head, points.rows))
        output = output_table(results, figure)
        screen.print(text_table(output.caption, output.head, output.rows))
        print_lines(screen, caveats(results, figure), style="dim")
    settled = f"\nThe publication's claims: {counted(PUBLICATION.settle([results]))}"
    checked = (f"- {line.replace('**', '')}" for line in check_lines(results))
    print_lines(screen, [settled, "", *checked, where_files_are(out, "results.json")])


@app.command()
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
    if verbose:
        target = f"{config.net} on {config.dataset}, {config.epochs} epochs"
        print(f"training the target, {target}", file=sys.stderr, flush=True)
    # There is one model: a log would count from 0 to 1, only a bar says something.
    with training_progress(1, out, shown=verbose and sys.stderr.isatty()) as progress:
        if record_only:
            file = record(config, out, device, data_dir, progress)
        else:
            results = run(config, out, device, data_dir, progress, disclosure=Disclosure(redact))
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
