"""Logs an audit to an experiment tracker.

leakscope.log_run(verdict, to="mlflow")

One file of this folder per tracker, named like it, offers `log(run, into) -> str`. Where in the tracker runs
go is the tracker's own setting, such as MLFLOW_TRACKING_URI or WANDB_PROJECT.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leakscope.errors import InputError, LeakscopeError, choose_from, first_line
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations.tracked_run import tracked_run
from leakscope.runs.run import Run, open_run

TRACKERS = ("mlflow", "wandb", "tensorboard")
"""Each is the name of its package, of leakscope's extra and of the file in this folder."""


class TrackingError(LeakscopeError):
    """A tracker did not take the run; the run folder is complete all the same."""


def log_run(run: Run | Verdict | Path | str, to: str, into: str | None = None) -> str:
    """Logs the figures, settings, verdict and report of a finished audit to a tracker.

    A run of the tracker that is active in this process receives them; else one is started and ended. A run
    that was redacted sends its redacted page only.

    Args:
        run: a verdict, an opened run, or a run folder.
        to: "mlflow", "wandb" or "tensorboard".
        into: the experiment (MLflow), project (Weights & Biases) or log folder (TensorBoard) that a new run
            belongs to; None: what the tracker is set to.

    Returns:
        Where the tracker has it: the id of the run, or the log folder.

    Raises:
        InputError: the tracker is unknown or not installed, or `into` would do nothing.
        TrackingError: the tracker failed, for example because its server does not answer.
    """
    check_tracker(to)
    tracked = tracked_run(run if isinstance(run, Verdict) else _opened(run).verdict)
    tracker = importlib.import_module(f"leakscope.integrations.{to}")
    try:
        with redirect_stdout(sys.stderr):  # a command that prints JSON prints nothing else
            return str(tracker.log(tracked, into))
    except LeakscopeError:
        raise
    except Exception as error:  # a library may raise anything
        raise TrackingError(f"{to} did not take the run ({first_line(error)})") from error


def check_tracker(to: str) -> None:
    """Raises InputError where a tracker is unknown or not installed."""
    if to not in TRACKERS:
        raise InputError(f"to={to!r} is not a tracker; {choose_from(to, TRACKERS)}")
    require(to, to)


def require(package: str, extra: str) -> None:
    """Raises InputError with the command that installs it where a package is missing."""
    if find_spec(package) is None:
        raise InputError(f"{package} is not installed; install it with: pip install 'leakscope[{extra}]'")


def refuse_into(into: str | None, tracker: str) -> None:
    """Raises InputError where `into` is given although a run is active."""
    if into is not None:
        raise InputError(f"into={into!r} would do nothing: the audit is logged to the active {tracker} run")


def refuse_another_audit(stored: Mapping[str, Any], given: Mapping[str, str], tracker: str) -> None:
    """Raises InputError where the settings of another audit are in the active run, before any is logged."""
    for name, value in given.items():
        if stored.get(name, value) != value:
            raise InputError(
                f"the active {tracker} run holds another audit ({name} is {stored[name]}, not {value}); log "
                "this one to a run of its own"
            )


def _opened(run: Run | Path | str) -> Run:
    return run if isinstance(run, Run) else open_run(run)
