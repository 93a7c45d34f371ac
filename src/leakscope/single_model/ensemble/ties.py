"""Calibrated scores without the ties that calibration makes.

Isotonic calibration is monotone, but it is a step function: records with different raw scores can get the
same calibrated score. A threshold takes all of them or none, which costs true positives at low false positive
rates. Here the uncalibrated score breaks such ties and nothing else changes: two different calibrated scores
never swap, and no score moves by more than a rounding error (about 2e-16 per record).
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import FloatArray, IntArray

_ONE = int(np.float64(2.0).view(np.int64))  # 1 + score, for a score of 1


def break_ties(calibrated: FloatArray, uncalibrated: FloatArray) -> FloatArray:
    """Scores in [0, 1] that order records by (calibrated, uncalibrated); equal pairs stay tied.

    Args:
        calibrated: float64 (records,), probabilities in [0, 1].
        uncalibrated: float64 (records,), the scores before calibration; higher means member.
    """
    order = np.lexsort((uncalibrated, calibrated))
    rises = (np.diff(calibrated[order]) > 0) | (np.diff(uncalibrated[order]) != 0)
    rank = np.concatenate([[0], np.cumsum(rises)])  # of each (calibrated, uncalibrated) pair
    steps = _lifted((1 + calibrated[order]).view(np.int64), rank)
    scores = np.empty(len(order))
    scores[order] = steps.view(np.float64) - 1
    return scores


def _lifted(steps: IntArray, rank: IntArray) -> IntArray:
    """The smallest increasing steps at or above the given ones, capped at 1; equal only at equal rank.

    A positive float64 read as an integer counts the numbers below it, so one step is one rounding error.
    """
    lifted = rank + np.maximum.accumulate(steps - rank)
    return np.asarray(np.minimum(lifted, _ONE - (rank[-1] - rank)))
