"""Runs the command line in this process: what a shell would see, without its start-up time."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from leakscope.cli.main import main


class Outcome(NamedTuple):
    """How a command ended and what it printed."""

    exit_code: int
    out: str
    err: str


def run_command(*arguments: str | Path) -> Outcome:
    """`leakscope ARGUMENTS`, neither stream a terminal."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["leakscope", *map(str, arguments)]
    with mock.patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int)
    return Outcome(code, out.getvalue(), err.getvalue())


def files_under(folder: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
