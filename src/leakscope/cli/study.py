"""`leakscope study`: published experiments, one command each."""

from __future__ import annotations

import typer

from leakscope.cli import study_dynamics, study_ensemble, study_leakage, study_scaling

app = typer.Typer(help="Reproduce published experiments.", no_args_is_help=True)
app.command("scaling")(study_scaling.scaling)
app.command("dynamics")(study_dynamics.dynamics)
app.command("leakage")(study_leakage.leakage)
app.command("ensemble")(study_ensemble.ensemble)
