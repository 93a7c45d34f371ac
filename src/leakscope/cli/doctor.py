"""`leakscope doctor`: what is installed, what is missing, and the command that adds it."""

from __future__ import annotations

import typer

from leakscope.cli.output import AsJson, DataDir
from leakscope.errors import ExitCode


def doctor(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Check the installation: versions, GPU, memory, folders, datasets, and what is missing.

    The exit code is 0 unless something that leakscope needs is missing or broken.
    """
    from leakscope.doctor import diagnosis

    found = diagnosis.diagnose(data_dir)
    print(diagnosis.as_json(found) if as_json else "\n".join(diagnosis.lines(found)))
    if found.problems:
        raise typer.Exit(ExitCode.RUN_FAILED)
