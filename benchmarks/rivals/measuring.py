"""One audit in a process of its own: wall and CPU time from start to exit, peak memory, lines of user code.

Memory is the resident set of the process and everything it started, summed and read from /proc every few
hundredths of a second, so pages that processes share count more than once. Linux only.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
_POLL_SECONDS = 0.03
_BEGIN, _END = "# user code begins", "# user code ends"
_MEASUREMENT = "audit.phase_done"


@dataclass(frozen=True, eq=False)
class Measured:
    """What one run of an audit took and gave.

    Attributes:
        seconds: wall time from start to exit of the process.
        cpu_seconds: of all cores, the processes it started and waited for included.
        import_seconds: of it, importing what the user's code names.
        peak_bytes: resident memory of the process tree at its highest.
        scores: float64 (records,), higher for members.
    """

    seconds: float
    cpu_seconds: float
    import_seconds: float
    peak_bytes: int
    scores: npt.NDArray[np.float64]


class AuditFailedError(Exception):
    """A script ended with an error; its last lines are the message."""


def run_audit(python: Path, script: str, folder: Path, option: str, n_threads: int | None) -> Measured:
    """Runs `rivals/SCRIPT.py` on the problem in `folder`.

    Args:
        python: of the tool's environment.
        script: without its suffix.
        folder: of the problem.
        option: of the script; empty: none.
        n_threads: for numeric libraries; None: their own choice.
    """
    command = [str(python), "-m", f"rivals.{script}", str(folder), *([option] if option else [])]
    with (folder / "stdout.txt").open("w+") as said, (folder / "stderr.txt").open("w+") as complained:
        started, cpu_before = time.perf_counter(), _children_cpu_seconds()
        process = subprocess.Popen(
            command, cwd=HERE.parent, env=environment(n_threads), stdout=said, stderr=complained
        )
        peak_bytes = _watch(process)
        seconds, cpu_seconds = time.perf_counter() - started, _children_cpu_seconds() - cpu_before
        said.seek(0)
        complained.seek(0)
        if process.returncode:
            raise AuditFailedError("\n".join(complained.read().splitlines()[-3:]))
        phases = json.loads(said.read().splitlines()[-1])["seconds"]
    return Measured(seconds, cpu_seconds, phases["import"], peak_bytes, np.load(folder / "scores.npy"))


def compile_to_bytecode(package: Path) -> None:
    """Gives ours the bytecode that pip gives every installed package, such as the rivals."""
    command = [sys.executable, "-m", "compileall", "-q", str(package)]
    subprocess.run(command, check=True)


def environment(n_threads: int | None) -> dict[str, str]:
    """The environment of a process whose numeric libraries use so many threads."""
    if n_threads is None:
        return dict(os.environ)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(n_threads))}


def lines_of_user_code(script: str) -> int:
    """Logical lines between the marks of a script, so that layout does not count; without measurement."""
    text = (HERE / f"{script}.py").read_text(encoding="utf-8")
    first, last = (text[: text.index(mark)].count("\n") + 1 for mark in (_BEGIN, _END))
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    written = [node for node in statements if first < node.lineno < last]
    return sum(not ast.unparse(node).startswith(_MEASUREMENT) for node in written)


def _children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(process: subprocess.Popen[bytes]) -> int:
    """Waits for the process to end; its tree's highest resident memory in bytes."""
    if not sys.platform.startswith("linux"):
        raise OSError("memory is read from /proc, which only Linux has")
    peak_bytes = 0
    while process.poll() is None:
        peak_bytes = max(peak_bytes, _tree_bytes(process.pid))
        time.sleep(_POLL_SECONDS)
    return peak_bytes


def _tree_bytes(pid: int) -> int:
    """Resident bytes of a process and its descendants now; those that just ended count nothing."""
    folder = Path(f"/proc/{pid}")
    try:
        own = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        children = [int(c) for task in (folder / "task").iterdir() for c in _children_of(task)]
    except OSError:
        return 0
    return own + sum(_tree_bytes(child) for child in children)


def _children_of(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except OSError:
        return []
