"""Which small case leaks enough for the ensemble study to say something without a GPU?

    python benchmarks/ensemble_cases.py

Trains two targets for each candidate and prints how far they overfit and the AUC of their loss over all
records: the figures of docs/ensemble.md. One CPU core, a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from scipy.special import log_softmax

from leakscope.data.gaussian import gaussian, overlapping
from leakscope.data.registry import load
from leakscope.engine.local import TrainingRequest, complete_bank
from leakscope.stats.roc import auc
from leakscope.studies.ensemble.config import EnsembleConfig
from leakscope.studies.ensemble.study import make_case
from leakscope.types import Design, Records

CANDIDATES: tuple[tuple[str, Records, int, int], ...] = (
    ("digits", load("digits"), 64, 100),
    ("digits", load("digits"), 256, 300),
    ("5 classes, 10 dimensions, sd 1.5", gaussian(0, 4000), 256, 100),
    ("10 classes, 20 dimensions, sd 1.5", gaussian(0, 4000, 20, 10), 256, 100),
    ("10 classes, 20 dimensions, sd 2.5", overlapping(), 128, 60),
    ("10 classes, 20 dimensions, sd 2.5", overlapping(), 64, 60),
)
"""Name, records, width of the perceptron, epochs."""


def measured(records: Records, width: int, epochs: int, seed: int) -> tuple[float, float]:
    """The gap in accuracy between members and non-members, and the AUC of the loss."""
    config = EnsembleConfig(width=width, epochs=epochs, seed=seed)
    case = make_case(config, records)
    request = TrainingRequest(
        case.records, Design(case.is_member[None]), config.recipe, seed, ("logits",), "cpu"
    )
    with tempfile.TemporaryDirectory() as folder:
        logits = np.asarray(complete_bank(Path(folder) / "bank", request).signals().last("logits")[0])
    labels = case.records.labels
    correct = logits.argmax(axis=1) == labels
    log_prob = log_softmax(logits.astype(np.float64), axis=1)[np.arange(len(labels)), labels]
    gap = correct[case.is_member].mean() - correct[~case.is_member].mean()
    return float(gap), auc(log_prob, case.is_member)


def main() -> None:
    """Prints one line per candidate."""
    for name, records, width, epochs in CANDIDATES:
        figures = [measured(records, width, epochs, seed) for seed in (0, 1)]
        shown = "; ".join(f"gap {gap:.3f}, AUC {area:.3f}" for gap, area in figures)
        print(f"{name}, {len(records):,} records, {width} units, {epochs} epochs: {shown}", flush=True)


if __name__ == "__main__":
    main()
