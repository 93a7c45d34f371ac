"""Runs the command line in this process: what a shell would see, without its start-up time."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import typer.main

from leakscope.cli.main import app, main

_GET_COMMAND = typer.main.get_command


class Outcome(NamedTuple):
    """How a command ended and what it printed."""

    exit_code: int
    out: str
    err: str


@cache
def _built_command() -> Any:
    """What typer makes of all commands and options; a shell does so once, and so do we."""
    return _GET_COMMAND(app)


def run_command(*arguments: str | Path) -> Outcome:
    """`leakscope ARGUMENTS`, neither stream a terminal."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["leakscope", *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(typer.main, "get_command", lambda _: _built_command()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
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
