"""`leakscope audit CONFIG.toml`: train the population, attack, judge, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.output import AsJson, DataDir, Quiet
from leakscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from leakscope.config import AuditConfig
    from leakscope.types import Records
    from leakscope.verdict import Verdict


def audit(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; see examples/.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Judge these saved answers (npz, csv, parquet); nothing is trained.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; by default runs/ and the file's name.")
    ] = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a population of your model on random halves of your records, and measure what leaks.

    With --predictions, judge one model by the answers you saved.
    """
    if config is not None and predictions is None:
        verdict = _audit_config(config, out, data_dir, shown=not (quiet or as_json))
    elif predictions is not None and config is None:
        verdict = _audit_file(predictions, out)
    else:
        raise InputError("give either a TOML file or --predictions FILE; see examples/")
    show(verdict, quiet, as_json)
    exit_by_gate(verdict, told=not (quiet or as_json))


def _audit_config(config: Path, out: Path | None, data_dir: Path | None, shown: bool) -> Verdict:
    from leakscope.audit import audit as run_audit
    from leakscope.cli.output import training_progress
    from leakscope.config import read_config

    sys.path.insert(0, str(config.parent.resolve()))  # a module of the user's may lie beside the config
    settings = read_config(config)
    records = settings.records(data_dir, base=config.parent)
    with training_progress(settings.population.models, shown) as progress:
        if settings.target is not None:
            return _audit_target(settings, records, config, out, progress)
        return run_audit(
            records,
            settings.recipe(),
            out or Path("runs") / config.stem,
            models=settings.population.models,
            seed=settings.population.seed,
            design=settings.population.design,
            attacks=settings.attacks.names,
            fpr_budgets=settings.attacks.fpr,
            signals=settings.population.signals,
            gate=settings.gate.gate() if settings.gate else None,
            device=settings.population.device,
            progress=progress,
        )


def _audit_target(
    settings: AuditConfig, records: Records, config: Path, out: Path | None, progress: Callable[[float], None]
) -> Verdict:
    """The given network of [target], judged by references of the config's recipe."""
    from leakscope.recipe import Recipe
    from leakscope.target_audit import audit_target, read_members

    target, recipe = settings.target, settings.recipe()
    assert target is not None, "called for configs with a target"
    assert isinstance(recipe, Recipe), "the config's validator lets no other recipe through"
    return audit_target(
        records,
        recipe,
        config.parent / target.weights,
        read_members(config.parent / target.members, records),
        out or Path("runs") / config.stem,
        models=settings.population.models,
        seed=settings.population.seed,
        fpr_budgets=settings.attacks.fpr,
        gate=settings.gate.gate() if settings.gate else None,
        device=settings.population.device,
        progress=progress,
    )


def _audit_file(predictions: Path, out: Path | None) -> Verdict:
    from leakscope.predictions_audit import audit_predictions

    return audit_predictions(predictions, out or Path("runs") / predictions.stem)


def exit_by_gate(verdict: Verdict, told: bool) -> None:
    """Ends the command with exit code 1 when the gate failed; says so now, unless it was told before."""
    if not verdict.gate_failed:
        return
    if not told:
        for line in verdict.gate_in_words():
            print(f"leakscope: {line}", file=sys.stderr)
    raise typer.Exit(1)


def show(verdict: Verdict, quiet: bool, as_json: bool) -> None:
    """The verdict on the screen: sentences, one table, where the rest is."""
    from leakscope.cli.output import console, print_json
    from leakscope.report.audit import unresolvable

    if as_json:
        print_json(verdict.results)
        return
    if quiet:
        return
    screen = console()
    screen.print()
    alarms = {*verdict.hygiene_in_words("failed"), *(verdict.gate_in_words() if verdict.gate_failed else [])}
    for line in verdict.words():
        screen.print(line, style="bold red" if line in alarms else None)
    screen.print()
    screen.print(_table(verdict.results))
    for line in (*unresolvable(verdict.results), *_lost(verdict.results)):
        screen.print(line, style="dim")
    screen.print(f"\nEvery number, the records and the figure are in {verdict.folder}", soft_wrap=True)


def _table(results: dict[str, Any]) -> Table:
    from rich.table import Table

    from leakscope.report.audit import attack_rows

    headings, rows = attack_rows(results)
    n_targets = results["population"]["targets"]
    title = f"Mean over {n_targets} targets ± 95% interval" if n_targets > 1 else "One target ± 95% interval"
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "attack" else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _lost(results: dict[str, Any]) -> list[str]:
    lost = results["population"]["lost_models"]
    named = ", ".join(f"{m} (epoch {e})" for m, e in list(lost.items())[:5])
    return [f"{len(lost)} models diverged and are left out: {named}."] if lost else []
