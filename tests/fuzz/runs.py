"""A small run folder of saved predictions, made once, to be copied and spoiled."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

from leakscope.data.predictions import Predictions
from leakscope.predictions_audit import audit_predictions
from leakscope.report import audit as audit_report


def answers() -> Predictions:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 24)
    logits = rng.normal(size=(3, 24, 3)).astype(np.float32)
    members = rng.random((3, 24)) < 0.5
    ids = np.array([f"p{i}" for i in range(24)])
    return Predictions(logits[0], labels, ids, members[0], groups={"side": np.where(labels > 0, "l", "r")},
                       shadow_logits=logits[1:], shadow_in_mask=members[1:])  # fmt: skip


def answers_into(folder: Path) -> None:
    """The run itself, without its pages."""
    with mock.patch.object(audit_report, "write_report"):
        audit_predictions(answers(), folder, attacks=("correctness", "lira"), fpr_budgets=(0.1,))


@functools.cache
def template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="leakscope-fuzz-"))
    answers_into(folder / "run")
    return folder / "run"
