"""Isotonic or sigmoid calibration: which finds more members at low false positive rates?

The same forest is calibrated in both ways. What is compared are the calibrated scores as the publication
submits them: ties are not broken.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.bank.run_folder import stored_array
from leakscope.disk.storage import write_array
from leakscope.single_model.attack import PRIVATE, fitted_to
from leakscope.single_model.results import AttackSettings
from leakscope.stats.bootstrap import cluster_bootstrap
from leakscope.stats.estimate import Estimate
from leakscope.stats.roc import split_scores
from leakscope.stats.roc_summary import operating_point_of_split
from leakscope.studies.ensemble.results import CalibrationRates

if TYPE_CHECKING:
    from leakscope.single_model.ensemble.attackers import Attacker
    from leakscope.studies.ensemble.outputs import TargetOutputs

SIGMOID = "sigmoid.npy"
"""The forest's scores of the private records under sigmoid calibration, in the run folder."""
COMPARED = "forest"
"""The attacker whose calibrations are compared: one that does not depend on the processor."""
_FPR_BUDGETS = (0.05, 0.01)
_N_DRAWS = 400


def write_sigmoid(folder: Path, attacker: Attacker, outputs: TargetOutputs, settings: AttackSettings) -> None:
    """Fits the attacker again, with the other calibration."""
    private = outputs.private()
    scores = fitted_to(outputs.public(), settings, attacker, "sigmoid").scores(private.logits, private.labels)
    write_array(folder / SIGMOID, scores.calibrated)


def calibration_rates(folder: Path, is_member: BoolArray, seed: int) -> tuple[CalibrationRates, ...]:
    """One entry per false positive rate; empty where the forest did not attack."""
    from leakscope.single_model.ensemble.holdout import figures

    if not (folder / SIGMOID).exists():
        return ()
    isotonic, sigmoid = stored_array(folder / PRIVATE / f"{COMPARED}.npy")[1], stored_array(folder / SIGMOID)
    return tuple(
        CalibrationRates(
            isotonic=figures(isotonic, is_member, fpr).tpr_at_fpr,
            sigmoid=figures(sigmoid, is_member, fpr).tpr_at_fpr,
            difference=difference(isotonic, sigmoid, is_member, fpr, seed),
        )
        for fpr in _FPR_BUDGETS
    )


def difference(
    first: FloatArray, second: FloatArray, is_member: BoolArray, fpr: float, seed: int
) -> Estimate:
    """TPR of the first scores minus that of the second; the interval resamples records."""

    def of_records(rows: IntArray) -> float:
        rates = [
            operating_point_of_split(split_scores(scores[rows], is_member[rows]), fpr).tpr
            for scores in (first, second)
        ]
        return rates[0] - rates[1]

    drawn = cluster_bootstrap(of_records, len(is_member), _N_DRAWS, seed=seed)
    ends = drawn.intervals[0].low, drawn.intervals[0].high
    numbers = [float(v) if np.isfinite(v) else None for v in (drawn.estimate[0], *ends)]
    return Estimate(*numbers)
