"""`leakscope audit CONFIG.toml`: train the population, attack, judge, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from leakscope.cli.output import AsJson, DataDir, Quiet, Redact, WithMembership
from leakscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from leakscope.audits.config import AuditConfig
    from leakscope.disclosure import Disclosure
    from leakscope.evaluate.results import AuditResults
    from leakscope.evaluate.verdict import Verdict
    from leakscope.types import Records


def audit(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; see examples/.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Judge these saved answers (npz, csv, parquet); nothing is trained.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder, or s3://BUCKET/RUN; by default runs/ and the file's name."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Who trains: local or ray; by default as the TOML file says.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster: auto or HOST:PORT.")] = None,
    data_dir: DataDir = None,
    redact: Redact = False,
    with_membership: WithMembership = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a population of your model on random halves of your records, and measure what leaks.

    With --predictions, judge one model by the answers you saved.
    """
    from leakscope.disclosure import Disclosure

    disclosure = Disclosure(redact, with_membership)
    if config is not None and predictions is None:
        where = _Where(out or Path("runs") / config.stem, engine, address)
        verdict = _audit_config(config, where, data_dir, disclosure, shown=not (quiet or as_json))
    elif predictions is not None and config is None:
        if engine or address:
            raise InputError("--engine and --address would do nothing: with --predictions nothing is trained")
        verdict = _audit_file(predictions, out, disclosure)
    else:
        raise InputError("give either a TOML file or --predictions FILE; see examples/")
    show(verdict, quiet, as_json)
    exit_by_gate(verdict, told=not (quiet or as_json))


class _Where(NamedTuple):
    """Where a run is kept and trained, as the command line says; None: as the TOML file says."""

    out: Path
    engine: str | None
    address: str | None

    def trainer(self, settings: AuditConfig) -> tuple[str, str | None]:
        """The engine and its address."""
        engine = self.engine or settings.population.engine
        of_file = settings.population.address if engine == settings.population.engine else None
        return engine, self.address or of_file


def _audit_config(
    config: Path, where: _Where, data_dir: Path | None, disclosure: Disclosure, shown: bool
) -> Verdict:
    from leakscope.audits.config import read_config
    from leakscope.audits.population import audit as run_audit
    from leakscope.cli.output import training_progress

    sys.path.insert(0, str(config.parent.resolve()))  # a module of the user's may lie beside the config
    settings = read_config(config)
    records = settings.records(data_dir, base=config.parent)
    engine, address = where.trainer(settings)
    with training_progress(settings.population.models, shown) as progress:
        if settings.target is not None:
            return _audit_target(settings, records, config, where, disclosure, progress)
        return run_audit(
            records,
            settings.recipe(),
            where.out,
            models=settings.population.models,
            seed=settings.population.seed,
            design=settings.population.design,
            attacks=settings.attacks.names,
            fpr_budgets=settings.attacks.fpr,
            signals=settings.population.signals,
            gate=settings.gate.gate() if settings.gate else None,
            device=settings.population.device,
            progress=progress,
            disclosure=disclosure,
            engine=engine,
            address=address,
        )


def _audit_target(
    settings: AuditConfig,
    records: Records,
    config: Path,
    where: _Where,
    disclosure: Disclosure,
    progress: Callable[[float], None],
) -> Verdict:
    """The given network of [target], judged by references of the config's recipe."""
    from leakscope.audits.target import audit_target, read_members
    from leakscope.recipe import Recipe

    target, recipe = settings.target, settings.recipe()
    engine, address = where.trainer(settings)
    assert target is not None, "called for configs with a target"
    assert isinstance(recipe, Recipe), "the config's validator lets no other recipe through"
    return audit_target(
        records,
        recipe,
        config.parent / target.weights,
        read_members(config.parent / target.members, records),
        where.out,
        models=settings.population.models,
        seed=settings.population.seed,
        fpr_budgets=settings.attacks.fpr,
        gate=settings.gate.gate() if settings.gate else None,
        device=settings.population.device,
        progress=progress,
        disclosure=disclosure,
        engine=engine,
        address=address,
    )


def _audit_file(predictions: Path, out: Path | None, disclosure: Disclosure) -> Verdict:
    from leakscope.audits.predictions import audit_predictions

    return audit_predictions(predictions, out or Path("runs") / predictions.stem, disclosure=disclosure)


def exit_by_gate(verdict: Verdict, told: bool) -> None:
    """Ends the command with exit code 1 when the gate failed; says so now, unless it was told before."""
    from leakscope.evaluate.sentences import gate_sentences

    if not verdict.gate_failed:
        return
    if not told:
        for line in gate_sentences(verdict.results):
            print(f"leakscope: {line}", file=sys.stderr)
    raise typer.Exit(1)


def show(verdict: Verdict, quiet: bool, as_json: bool) -> None:
    """The verdict on the screen: sentences, one table, where the rest is."""
    from leakscope.audits.report.cells import unmeasurable
    from leakscope.bank.results import results_json
    from leakscope.cli.output import console, print_json
    from leakscope.evaluate.sentences import check_sentences, gate_sentences
    from leakscope.report.page import PAGE

    if as_json:
        print_json(results_json(verdict.results))
        return
    if quiet:
        return
    screen = console()
    screen.print()
    results = verdict.results
    alarms = {*check_sentences(results, "failed"), *(gate_sentences(results) if verdict.gate_failed else [])}
    for line in verdict.summary():
        screen.print(line, style="bold red" if line in alarms else None)
    screen.print()
    screen.print(_table(results))
    for line in unmeasurable(results):
        screen.print(line, style="dim")
    screen.print(f"\nEvery number, the records and the figure are in {verdict.folder}", soft_wrap=True)
    screen.print(f"Open {verdict.folder / PAGE} for the whole report", soft_wrap=True)


def _table(results: AuditResults) -> Table:
    from rich.table import Table

    from leakscope.audits.report.cells import attack_table

    attacks = attack_table(results)
    n_targets = results.population.targets
    title = f"Mean over {n_targets} targets ± 95% interval" if n_targets > 1 else "One target ± 95% interval"
    table = Table(title=title)
    for heading in attacks.head:
        table.add_column(heading, justify="left" if heading == "attack" else "right")
    for row in attacks.rows:
        table.add_row(*row)
    return table
