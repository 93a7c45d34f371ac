"""The command line of a run of the scaling study."""

from __future__ import annotations

from leakscope.bank.run_folder import to_jsonable
from leakscope.report.study_page import Command, closest, options
from leakscope.studies.scaling.config import PRESETS, ScalingConfig


def command(config: ScalingConfig) -> Command:
    """The command line that runs this study."""
    presets = {name: to_jsonable(preset) for name, preset in PRESETS.items()}
    preset, given = closest(presets, to_jsonable(config))
    given = {("widths" if name == "hidden_widths" else name): value for name, value in given.items()}
    return Command(
        ("leakscope", "study", "scaling", "--preset", preset, *options(given), "--out", "runs/again")
    )
