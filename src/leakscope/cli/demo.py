"""`leakscope demo`: an audit of a small network on built-in data, no arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakscope.cli.output import AsJson, Out, Quiet


def demo(
    out: Out = Path("runs/demo"),
    models: Annotated[int, typer.Option(help="Number of models, an even number.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Audit a small network on handwritten digits: train 64 models, attack them, report what leaks."""
    from leakscope.audits.population import TrainedPopulation
    from leakscope.audits.run import run_audit
    from leakscope.audits.settings import AuditSettings
    from leakscope.cli.audit import show
    from leakscope.cli.output import training_progress
    from leakscope.data.registry import load
    from leakscope.recipe import Recipe

    recipe = Recipe(net="mlp", net_options=(("width", 128),), optimizer="adam", lr=0.003, epochs=60)
    source, settings = TrainedPopulation(load("digits"), recipe), AuditSettings(models=models, seed=seed)
    with training_progress(models, shown=not (quiet or as_json)) as progress:
        verdict = run_audit(settings, source, out, progress)
    show(verdict, quiet, as_json)
