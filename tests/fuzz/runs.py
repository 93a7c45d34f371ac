"""Small run folders of every kind, made once, to be copied and spoiled.

A template is a folder that holds the run as `run`, and whatever else the run refers to beside it.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np

from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.report import page as audit_report
from leakscope.audits.run import audit
from leakscope.data.predictions import Predictions


def answers() -> Predictions:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 24)
    logits = rng.normal(size=(3, 24, 3)).astype(np.float32)
    members = rng.random((3, 24)) < 0.5
    ids = np.array([f"p{i}" for i in range(24)])
    return Predictions(logits[0], labels, ids, members[0], groups={"side": np.where(labels > 0, "l", "r")},
                       reference_logits=logits[1:], reference_in_mask=members[1:])  # fmt: skip


def answers_into(folder: Path) -> None:
    """The run itself, without its pages."""
    with mock.patch.object(audit_report, "write_report"):
        audit(SavedPredictions(answers()), out=folder, attacks=("correctness", "lira"), fpr=(0.1,))


def template() -> Path:
    return template_of("answers") / "run"


def _pictures(run: Path) -> None:
    """An audit with thumbnails, and a key as a redacted report leaves it."""
    from leakscope.disclosure import KEY
    from tests.synthetic_runs import Synthetic

    Synthetic(n_records=40, n_models=8, pictures=True).audited(run)
    (run / KEY).write_bytes(bytes(range(32)))


def _study(name: str) -> Callable[[Path], None]:
    """Runs that the tests of schemas make."""

    def into(run: Path) -> None:
        import pytest

        from leakscope.single_model.ensemble import attackers
        from tests.runs import test_schema

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(attackers, "ATTACKERS", test_schema.SMALL_ATTACKERS)
            getattr(test_schema, name)(run)

    return into


MADE: dict[str, Callable[[Path], None]] = {
    "answers": answers_into,
    "audit": _study("run_population"),
    "pictures": _pictures,
    "compare": _study("run_comparison"),
    "attack": _study("run_attack"),
    "dynamics": _study("run_one_checkpoint"),
    "ensemble": _study("run_ensemble"),
    "leakage": _study("run_leakage"),
    "scaling": _study("run_scaling"),
}
"""Kind of template -> what writes its run."""


@functools.cache
def template_of(kind: str) -> Path:
    """The folder that holds `run` and what it refers to."""
    folder = Path(tempfile.mkdtemp(prefix=f"leakscope-fuzz-{kind}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    MADE[kind](folder / "run")
    return folder
