"""`leakscope study`: published experiments and comparisons, one command each."""

from __future__ import annotations

from leakscope.cli.app import App
from leakscope.cli.studies.defences import defences
from leakscope.cli.studies.dynamics import dynamics
from leakscope.cli.studies.ensemble import ensemble
from leakscope.cli.studies.leakage import leakage
from leakscope.cli.studies.scaling import scaling

app = App(help="Reproduce published experiments, and compare defences.")
for command in (scaling, dynamics, leakage, ensemble, defences):
    app.command()(command)
