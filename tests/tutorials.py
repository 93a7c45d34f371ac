"""Tutorials as programs: what a page says to save is saved, what it says to run is run, in order.

- "Save this as `NAME`" before a block of code writes the block to that file.
- Every other block of Python is run, all of a page in one namespace.
- Every line of a block of sh is a command of leakscope; `# exit code N` states how it ends, otherwise with 0.
- A block of text after either is what was printed: each of its lines must be among the printed ones, where
  any number may stand for a number.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.command import run_command

BLOCK = re.compile(
    r"(?P<before>[^\n]*)\n+^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
SAVED = re.compile(r"[Ss]ave this as `([\w./-]+)`")


class Step(NamedTuple):
    """A block of a tutorial, and the file it is saved as; an empty name: it is run."""

    language: str
    body: str
    file: str


def steps(page: str) -> Iterator[Step]:
    for block in BLOCK.finditer(page):
        saved = SAVED.search(block["before"])
        yield Step(block["language"], block["body"], saved[1] if saved else "")


def run_tutorial(page: str, folder: Path) -> None:
    """Runs a page in a folder, which is the current one."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for step in steps(page):
        if step.file:
            (folder / step.file).write_text(step.body)
        elif step.language == "python":
            out = StringIO()
            with redirect_stdout(out):
                exec(compile(step.body, "tutorial", "exec"), namespace)
            printed = out.getvalue()
        elif step.language == "sh":
            printed = "".join(_run(line) for line in step.body.splitlines() if line.strip())
        elif step.language == "text":
            for line in step.body.splitlines():
                assert _shape(line) in _shape(printed), f"not printed: {line!r}; but:\n{printed}"


def _run(line: str) -> str:
    command, _, expected = line.partition("# exit code ")
    name, *arguments = shlex.split(command, comments=True)
    assert name == "leakscope", line
    outcome = run_command(*arguments)
    assert outcome.exit_code == int(expected or 0), f"{line}\n{outcome.out}\n{outcome.err}"
    return outcome.out + outcome.err


def _shape(text: str) -> str:
    """Text on one line with every number as #: rerun on another machine, only numbers may differ."""
    return " ".join(re.sub(r"\d[\d,.]*", "#", text).split())
