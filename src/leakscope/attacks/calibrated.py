"""Difficulty calibration (Watson et al. 2022): the answer minus that of models without the record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.attacks.moments import both_sides
from leakscope.types import Design, FloatArray, IntArray, Signals


@dataclass(frozen=True)
class Calibrated(Attack):
    """Log-odds minus their mean over OUT models."""

    name = "calibrated"
    needs = ("log_odds",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """float64 (targets, columns)."""
        log_odds = signals.last("log_odds").astype(np.float64)
        _, unseen = both_sides(log_odds, design.in_mask, targets)
        return log_odds[targets] - unseen.mean
