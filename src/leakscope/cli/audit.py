"""`leakscope audit CONFIG.toml`: train the population, attack, judge, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.output import AsJson, DataDir, Quiet

if TYPE_CHECKING:
    from rich.table import Table

    from leakscope.verdict import Verdict


def audit(
    config: Annotated[Path, typer.Argument(help="A TOML file; see examples/.")],
    out: Annotated[
        Path | None, typer.Option(help="Run folder; by default runs/ and the config's name.")
    ] = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a population of your model on random halves of your records, and measure what leaks."""
    from leakscope.audit import audit as run_audit
    from leakscope.cli.output import training_progress
    from leakscope.config import read_config

    settings = read_config(config)
    records = settings.records(data_dir, base=config.parent)
    with training_progress(settings.population.models, shown=not (quiet or as_json)) as progress:
        verdict = run_audit(
            records,
            settings.recipe(),
            out or Path("runs") / config.stem,
            models=settings.population.models,
            seed=settings.population.seed,
            design=settings.population.design,
            attacks=settings.attacks.names,
            fpr_budgets=settings.attacks.fpr,
            signals=settings.population.signals,
            device=settings.population.device,
            progress=progress,
        )
    show(verdict, quiet, as_json)


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
    for line in verdict.words():
        screen.print(line)
    screen.print()
    screen.print(_table(verdict.results))
    for line in (*unresolvable(verdict.results), *_lost(verdict.results)):
        screen.print(line, style="dim")
    screen.print(f"\nEvery number, the records and the figure are in {verdict.folder}", soft_wrap=True)


def _table(results: dict[str, Any]) -> Table:
    from rich.table import Table

    from leakscope.report.audit import attack_rows

    headings, rows = attack_rows(results)
    table = Table(title=f"Mean over {results['population']['models']} targets ± 95% interval")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "attack" else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _lost(results: dict[str, Any]) -> list[str]:
    lost = results["population"]["lost_models"]
    named = ", ".join(f"{m} (epoch {e})" for m, e in list(lost.items())[:5])
    return [f"{len(lost)} models diverged and are left out: {named}."] if lost else []
