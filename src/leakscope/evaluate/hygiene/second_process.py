"""The forests of the check for shift in a second process, which loads scikit-learn beside this one.

scikit-learn takes as long to load as a small audit takes to attack, and Python loads one library at a time.
Nothing depends on the second process: where it cannot be started or fails, the forests grow in this one. The
scores are the same. It ends when the audit does, and when its input is closed, however this process ends.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import numpy as np

from leakscope.array_types import FloatArray

if TYPE_CHECKING:
    from leakscope.evaluate.hygiene.shift import ShiftTask

_MOST_BYTES = 1 << 26
_PROCESS: ContextVar[subprocess.Popen[bytes] | None] = ContextVar("second process", default=None)


@contextmanager
def loading_beside(is_needed: bool = True) -> Iterator[None]:
    """Starts the second process; `scores_from_beside` may use it once within the block."""
    process = _started() if is_needed and "sklearn" not in sys.modules and _cores() > 1 else None
    token = _PROCESS.set(process)
    try:
        yield
    finally:
        _PROCESS.reset(token)
        if process is not None:
            process.kill()
            process.communicate()


def scores_from_beside(shift: ShiftTask) -> FloatArray | None:
    """What `shift.forest_scores` returns; None where there is no second process, or it failed."""
    process = _PROCESS.get()
    if process is None or shift.features.nbytes > _MOST_BYTES:
        return None
    _PROCESS.set(None)  # its input ends with this task
    task = io.BytesIO()
    np.savez(task, **shift._asdict())
    try:
        answer, _ = process.communicate(task.getvalue())
        scores: FloatArray = np.load(io.BytesIO(answer))
    except (OSError, ValueError, EOFError):
        return None
    return scores if process.returncode == 0 and scores.shape == shift.members.shape else None


def serve() -> None:
    """What the second process does: load scikit-learn, then wait for one task."""
    import sklearn.ensemble
    import sklearn.model_selection  # noqa: F401

    from leakscope.evaluate.hygiene.shift import ShiftTask, forest_scores

    task = sys.stdin.buffer.read()
    if task:
        with np.load(io.BytesIO(task)) as given:
            of_task = ShiftTask(given["features"], given["members"], int(given["seed"]), given["units"])
            scores = forest_scores(of_task)
        np.save(sys.stdout.buffer, scores)


def _started() -> subprocess.Popen[bytes] | None:
    """A Python with this one's search path, out of reach of Ctrl-C, which is for this process to handle."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):  # no such program, no memory for it, or not allowed
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
