"""Python processes that have what an audit needs loaded when they start: each is forked from one that has.

A test that starts Python again and again, because what it tests happens from process to process, spends most
of its time on importing the same libraries. Tests of what a start itself does use `subprocess`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
_LOADED = (
    "tests.faults.loaded", "tests.quick_audits", "leakscope.cli.main", "leakscope.audits.config",
    "leakscope.report.png", "jinja2",
)  # fmt: skip


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` in the folder; the arguments begin with `-c` and the code, or with a script."""
    server, said = _server(), (folder / ".out", folder / ".err")
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps([str(folder), arguments, *map(str, said)]) + "\n")
    server.stdin.flush()
    code = int(server.stdout.readline())
    texts = [path.read_text() for path in said]
    for path in said:
        path.unlink()
    return subprocess.CompletedProcess(arguments, code, *texts)


@cache
def _server() -> subprocess.Popen[str]:
    """It ends when its input is closed, which is when this process ends."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-B", "-m", __name__],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _requested(requests: IO[str], answers: IO[str]) -> list[str] | None:
    """In a child: its arguments. In the server: None, at the end."""
    for line in requests:
        folder, arguments, *said = json.loads(line)
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            for stream, place in enumerate((os.devnull, *said)):
                flags = os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                os.dup2(os.open(place, flags), stream)
            return list(arguments)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
    return None


def _run(arguments: list[str]) -> None:
    """What Python does with them."""
    main: Any = ModuleType("__main__")
    if arguments[0] == "-c":
        sys.path[0], sys.argv, code = "", ["-c", *arguments[2:]], compile(arguments[1], "<string>", "exec")
    else:
        main.__file__, sys.argv = arguments[0], list(arguments)
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        code = compile(Path(arguments[0]).read_bytes(), arguments[0], "exec")
    sys.modules["__main__"] = main
    exec(code, vars(main))


if __name__ == "__main__":
    for name in _LOADED:
        import_module(name)
    import_module("leakscope.report.page").pack_plotly().result()
    given = _requested(os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"))
    if given is not None:
        _run(given)
