"""Audits in a fraction of their time, for rooms whose tests look at other things.

Pictures are not rendered, though their charts are still translated for matplotlib; the forests of the check
for shift and the boosted trees of the attack `quantile` are few. Together these are more than half of the
time of a small audit. A test that looks at any of them uses the fixture `whole_audits`.

What is patched here is not patched in a second process, so none is started: an audit that it helped would
have other figures than one that did all in this process, and `verify` would refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest
import sklearn.ensemble
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.ensemble import HistGradientBoostingRegressor

from leakscope.audits.planning import judging, trial
from leakscope.disk import second_process
from leakscope.evaluate.hygiene import shift
from leakscope.leakage import bits

_RENDERING = FigureCanvasAgg.print_png
_N_TREES = shift.N_TREES
_FEW_TREES = 8


def _leave_blank(canvas: FigureCanvasAgg, file: IO[bytes], **_: Any) -> None:
    file.write(b"a picture that was not rendered")


def _few_rounds(max_iter: int, **options: Any) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(max_iter=min(max_iter, _FEW_TREES), **options)


@contextmanager
def quick_audits() -> Iterator[None]:
    """Leaves them out."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FigureCanvasAgg, "print_png", _leave_blank)
        patched.setattr(second_process, "_started", lambda _: None)
        patched.setattr(shift, "N_TREES", _FEW_TREES)
        patched.setattr(sklearn.ensemble, "HistGradientBoostingRegressor", _few_rounds)
        yield


@contextmanager
def whole_audits() -> Iterator[None]:
    """Restores them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FigureCanvasAgg, "print_png", _RENDERING)
        patched.setattr(shift, "N_TREES", _N_TREES)
        patched.setattr(sklearn.ensemble, "HistGradientBoostingRegressor", HistGradientBoostingRegressor)
        yield


def short_trials(patched: pytest.MonkeyPatch) -> None:
    """Plans without precision: each part is tried for a moment, and few records are judged."""
    for part in ("STEPS", "ORDERS", "QUERIES", "FITS"):
        patched.setattr(trial, f"_{part}_TRIAL", 0.01)
    patched.setattr(judging, "_TRIAL", 0.01)
    for size in ("_FEW", "_MORE", "_FITTED", "_MANY"):
        patched.setattr(judging, size, 100)


@contextmanager
def few_permutations() -> Iterator[None]:
    """Bits with a quarter of the permutations, which take a quarter of the time of a small audit."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(second_process, "_started", lambda _: None)
        patched.setattr(bits, "_MOST_PERMUTATIONS", bits._LEAST_PERMUTATIONS)
        patched.setattr(bits, "_JACKKNIFED_PERMUTATIONS", 1)
        yield
