"""Audits in a fraction of their time, for rooms whose tests look at other things.

Pictures are not rendered, though their charts are still translated for matplotlib, and the forests of the
check for shift have few trees. Together these are half of the time of a small audit. A test that looks at
either uses the fixture `whole_audits`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest
import sklearn.ensemble
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.ensemble import ExtraTreesClassifier

from leakscope.audits.planning import trial

_RENDERING = FigureCanvasAgg.print_png
_FEW_TREES = 8


def _leave_blank(canvas: FigureCanvasAgg, file: IO[bytes], **_: Any) -> None:
    file.write(b"a picture that was not rendered")


def _small_forest(n_trees: int, **options: Any) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(min(n_trees, _FEW_TREES), **options)


@contextmanager
def quick_audits() -> Iterator[None]:
    """Leaves both out."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FigureCanvasAgg, "print_png", _leave_blank)
        patched.setattr(sklearn.ensemble, "ExtraTreesClassifier", _small_forest)
        yield


@contextmanager
def whole_audits() -> Iterator[None]:
    """Restores both."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FigureCanvasAgg, "print_png", _RENDERING)
        patched.setattr(sklearn.ensemble, "ExtraTreesClassifier", ExtraTreesClassifier)
        yield


def short_trials(patched: pytest.MonkeyPatch) -> None:
    """Plans without precision: each part is tried for a moment, and few records are judged."""
    for part in ("STEPS", "ORDERS", "QUERIES", "FITS", "JUDGING"):
        patched.setattr(trial, f"_{part}_TRIAL", 0.01)
    patched.setattr(trial, "_JUDGED_RECORDS", 100)
