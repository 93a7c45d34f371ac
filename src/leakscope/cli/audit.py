"""`leakscope audit`, `demo` and `judge`: train or read a population, attack it, report what leaks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli import prediction_options as options
from leakscope.cli.output import (
    AsJson,
    Attacks,
    ClaimText,
    DataDir,
    FprBudgets,
    Queries,
    Quiet,
    Redact,
    Seed,
    Unit,
    WithMembership,
    claimed,
    console,
    print_lines,
    rates,
    show_results,
    split_names,
    text_table,
    training_progress,
)
from leakscope.cli.pipeline import GateName, Junit, Summary, check_files, with_gate, write_audit
from leakscope.cli.track import Track, checked_trackers, track_finished
from leakscope.errors import ExitCode, InputError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from leakscope.audits.settings import AuditSettings
    from leakscope.audits.source import Progress, Source
    from leakscope.data.prediction_roles import PredictionColumns
    from leakscope.evaluate.remedies import Finding
    from leakscope.evaluate.verdict import Verdict


_ADVICE: Mapping[Finding, str] = {
    "leakage": "defences against the leakage",
    "duplicates": "removing duplicates",
    "late epochs": "fewer epochs",
    "overfitting": "less overfitting",
    "overconfidence": "less extreme outputs",
    "groups": "protecting exposed groups",
    "models": "more models",
}
"""What the report advises, by the kind of finding."""


def audit(
    config: Annotated[
        Path | None, typer.Argument(help="Config file (TOML); `leakscope init` writes one.")
    ] = None,
    predictions: options.Predictions = None,
    label: options.Label = None,
    id_column: options.Id = None,
    member: options.Member = None,
    prob: options.Prob = None,
    logit: options.Logit = None,
    prediction: options.Prediction = None,
    classes: options.Classes = None,
    model_column: options.ModelColumn = None,
    target: options.Target = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder, or s3://BUCKET/RUN (default: runs/NAME, with the name of the file)."),
    ] = None,
    models: Annotated[
        int | None, typer.Option(help="Number of models; a larger number extends a finished run.")
    ] = None,
    unit: Unit = None,
    queries: Queries = None,
    attacks: Attacks = None,
    fpr: FprBudgets = None,
    gate: GateName = None,
    claim: ClaimText = None,
    max_auc: options.MaxAuc = None,
    max_advantage: options.MaxAdvantage = None,
    max_tpr: options.MaxTpr = None,
    engine: Annotated[
        str | None, typer.Option(help="Training backend: local or ray (default: from the config).")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster: auto or HOST:PORT.")
    ] = None,
    data_dir: DataDir = None,
    reuse: Annotated[
        bool,
        typer.Option("--reuse", help="Reuse trained models even if your code has changed or is unknown."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over: remove what the run folder holds.")
    ] = False,
    redact: Redact = None,
    with_membership: WithMembership = False,
    track: Track = None,
    junit: Junit = None,
    summary: Summary = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train many models like yours on random halves of your records, and measure what leaks.

    With --predictions, audit one model by the predictions that you saved. leakscope recognizes the columns of
    a csv or parquet file by their names; if yours have other names, pass them with the options below.
    """
    from leakscope.audits.run import run_audit
    from leakscope.audits.settings import DEFAULT_MODELS
    from leakscope.disclosure import Disclosure

    check_files(junit, summary)
    columns = options.prediction_columns(
        label=label, id=id_column, member=member, prob=prob, logit=logit, prediction=prediction,
        classes=classes, model_column=model_column, target=target,
    )  # fmt: skip
    given = {
        "models": models,
        "unit": unit,
        "queries": queries,
        "attacks": split_names(attacks),
        "fpr": rates(fpr),
        "claim": claimed(claim),
        "engine": engine,
        "address": address,
        "reuse": reuse or None,
        "fresh": fresh or None,
    }
    trackers = checked_trackers(track)
    settings, source = configured(config, predictions, data_dir, given, columns)
    limits = options.with_limits(with_gate(settings.gate, gate), max_auc, max_advantage, max_tpr)
    settings = replace(settings, gate=limits, disclosure=Disclosure(redact, with_membership))
    file = config or predictions
    assert file is not None, "`configured` refuses anything else"
    trains = "models" in source.uses
    n_models = settings.models or (DEFAULT_MODELS if trains else 1)
    out = out or Path("runs") / file.stem
    if not (quiet or as_json):
        _show_columns(source, settings.unit)
    with training_progress(n_models, out, shown=trains and not (quiet or as_json)) as progress:
        if not (quiet or as_json):
            progress = _naming_default(progress, source, settings)
        verdict = run_audit(settings, source, out, progress)
    write_audit(verdict.results, junit, summary)
    show(verdict, quiet, as_json, with_membership)
    sys.stdout.flush()  # a tracker may take a while
    track_finished(verdict, trackers, quiet)
    exit_by_outcome(verdict, printed=not (quiet or as_json))


def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder (default: runs/demo; with --text, runs/demo-text)."),
    ] = None,
    models: Annotated[
        int | None, typer.Option(help="Number of models; must be even (default: 64; with --text, 8).")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Audit a tiny language model on made-up letters with secrets.")
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Audit a small network on handwritten digits: train 64 models, attack them, report what leaks.

    With --text, the models are language models, and some documents hold a planted secret.
    """
    from leakscope.audits.population import TrainedPopulation
    from leakscope.audits.run import run_audit
    from leakscope.audits.settings import AuditSettings
    from leakscope.data.registry import load
    from leakscope.recipe import Recipe

    out = out or Path("runs/demo-text" if text else "runs/demo")
    if text:
        from leakscope.audits.text_demo import MODELS, text_demo

        source, n_models = text_demo(seed), MODELS if models is None else models
    else:
        recipe = Recipe(net="mlp", net_options=(("width", 128),), optimizer="adam", lr=0.003, epochs=60)
        source, n_models = TrainedPopulation(load("digits"), recipe), 64 if models is None else models
    with training_progress(n_models, out, shown=not (quiet or as_json)) as progress:
        verdict = run_audit(AuditSettings(models=n_models, seed=seed), source, out, progress)
    show(verdict, quiet, as_json)


def judge(
    run: Annotated[Path, typer.Argument(help="Run folder of an audit.")],
    attacks: Attacks = None,
    fpr: FprBudgets = None,
    gate: GateName = None,
    claim: ClaimText = None,
    max_auc: options.MaxAuc = None,
    max_advantage: options.MaxAdvantage = None,
    max_tpr: options.MaxTpr = None,
    redact: Redact = None,
    with_membership: WithMembership = False,
    junit: Junit = None,
    summary: Summary = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Attack the models of a finished audit again, with any attack its signals allow.

    Nothing is trained. Earlier results stay in the run folder beside the new ones. Limits that you give
    replace the gate that the run was judged by; without any, that gate is applied again.
    """
    from leakscope.audits.finished import FinishedRun
    from leakscope.audits.run import run_audit
    from leakscope.audits.settings import AuditSettings
    from leakscope.disclosure import Disclosure

    check_files(junit, summary)
    settings = AuditSettings(
        attacks=split_names(attacks),
        fpr=rates(fpr),
        gate=options.with_limits(with_gate(None, gate), max_auc, max_advantage, max_tpr),
        claim=claimed(claim),
        disclosure=Disclosure(redact, with_membership),
    )
    verdict = run_audit(settings, FinishedRun(run), run)
    write_audit(verdict.results, junit, summary)
    show(verdict, quiet, as_json, with_membership)
    exit_by_outcome(verdict, printed=not (quiet or as_json))


def configured(
    config: Path | None,
    predictions: Path | None,
    data_dir: Path | None,
    given: dict[str, Any],
    columns: PredictionColumns | None = None,
) -> tuple[AuditSettings, Source]:
    """Settings and source from a config file or a file of predictions, with command-line options on top."""
    from leakscope.audits.config import read_config
    from leakscope.audits.predictions import SavedPredictions
    from leakscope.audits.settings import AuditSettings
    from leakscope.data.prediction_roles import BY_NAME

    columns = columns or BY_NAME
    on_top = {name: value for name, value in given.items() if value is not None}
    if config is not None and predictions is None:
        options.refuse_columns(columns, config)
        read = read_config(config)
        if data_dir is not None and (read.data is None or read.data.dataset is None):
            raise InputError(f"--data-dir={data_dir} would do nothing: {config} names no dataset")
        if on_top.get("engine") not in (None, read.settings.engine):
            on_top.setdefault("address", None)  # the config's address belongs to the config's engine
        read = replace(read, settings=replace(read.settings, **on_top))
        return read.settings, read.source(data_dir)
    if predictions is not None and config is None:
        if data_dir is not None:
            raise InputError(f"--data-dir={data_dir} would do nothing: saved predictions need no dataset")
        return AuditSettings(**on_top), SavedPredictions(predictions, columns)
    raise InputError("give either a config file (`leakscope init` writes one) or --predictions FILE")


def _show_columns(source: Source, unit: str | None) -> None:
    """How the columns of a table were read, before models are trained on it."""
    from leakscope.audits.given import GivenTarget
    from leakscope.audits.population import TrainedPopulation, column_lines
    from leakscope.audits.predictions import SavedPredictions

    if isinstance(source, TrainedPopulation | GivenTarget):
        print_lines(console(), column_lines(source.records, source.recipe, unit))
    elif isinstance(source, SavedPredictions):
        print_lines(console(), [f"Warning: {line}." for line in source.warnings(unit)])


def _naming_default(progress: Progress, source: Source, settings: AuditSettings) -> Progress:
    """Names the default model, where a config file names none, at the first report of progress.

    By then every setting is known to be right: a mistake is one line, and nothing else is printed.
    """
    lines = _default_lines(source, settings)

    def advance(models: float) -> None:
        if lines:
            print_lines(console(), [lines.pop()])
        progress(models)

    return advance


def _default_lines(source: Source, settings: AuditSettings) -> list[str]:
    import tomllib

    from leakscope.audits.given import GivenTarget
    from leakscope.audits.population import TrainedPopulation
    from leakscope.audits.recipe_text import recipe_text

    if settings.config_text is None or "model" in tomllib.loads(settings.config_text):
        return []
    if not isinstance(source, TrainedPopulation | GivenTarget):
        return []
    what = "Models" if isinstance(source, TrainedPopulation) else "Reference models"
    how = recipe_text(source.recipe.description())
    return [f"{what} to train: {how} (the default of leakscope: the config has no [model])."]


def exit_by_outcome(verdict: Verdict, printed: bool) -> None:
    """Ends the command with the verdict's exit code; prints the reason, unless that was printed already."""
    if verdict.exit_code == ExitCode.SUCCESS:
        return
    if not printed:
        for line in _alarms(verdict):
            print(f"leakscope: {printable(line)}", file=sys.stderr)
    raise typer.Exit(verdict.exit_code)


def _alarms(verdict: Verdict) -> list[str]:
    """Why the outcome is not a pass, and what makes the figures doubtful."""
    from leakscope.evaluate.sentences import claim_sentences, gate_sentences, opening_sentences

    gate = gate_sentences(verdict.results) if verdict.exit_code else []
    is_alarm = verdict.claim is not None and verdict.claim.status != "consistent"
    claim = claim_sentences(verdict.results)[:1] if is_alarm else []
    return [*opening_sentences(verdict.results), *gate, *claim]


def show(verdict: Verdict, quiet: bool, as_json: bool, with_membership: bool = False) -> None:
    """The verdict on the screen: sentences, one table, where the rest is."""
    from leakscope.audits.report.cells import (
        attack_table,
        remarks,
        sets_remarks,
        sets_table,
        title_of_attacks,
    )
    from leakscope.evaluate.coarse import shareable
    from leakscope.evaluate.remedies import remedies
    from leakscope.report.page import page_path
    from leakscope.report.phrases import enumeration

    results, attacks = verdict.results, attack_table(verdict.results)
    sets, noun = sets_table(results), results.config.noun

    def show_verdict(screen: Console) -> None:
        alarms = _alarms(verdict)
        facts = results.config.source.facts
        if {"file", "columns"} <= facts.keys():  # whoever sees a wrong reading of predictions can correct it
            print_lines(screen, [f"Read {facts['file']}: {facts['columns']}."], style="dim")
        screen.print()
        for line in verdict.summary():
            screen.print(line, style="bold red" if line in alarms else None)
        screen.print()
        screen.print(text_table(title_of_attacks(results), attacks.head, attacks.rows))
        screen.print(text_table(f"The strongest attack on each set of {noun.many}", sets.head, sets.rows))
        for line in dict.fromkeys([*remarks(results), *sets_remarks(results)]):
            screen.print(line, style="dim")
        reported = results if with_membership else shareable(results)  # the figures of the report
        if advice := [_ADVICE[remedy.finding] for remedy in remedies(reported)]:
            screen.print(f'\nThe section "What to do" of the report advises {enumeration(advice)}.')
        where = f"\nEvery number, the records and the figure are in {verdict.folder}"
        print_lines(screen, [where, f"Open {page_path(verdict.folder)} for the whole report"])

    show_results(results, show_verdict, quiet, as_json)
