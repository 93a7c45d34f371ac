"""Attack-R (Ye et al. 2022): is the target's loss small compared with other models' on the record?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.attacks.moments import both_sides
from leakscope.types import Design, FloatArray, IntArray, Signals


@dataclass(frozen=True)
class Reference(Attack):
    """Share of OUT models with a higher loss on the record than the target.

    With n OUT models that share has n + 1 values; records that tie are told apart by how far the
    target's log-odds stand above the OUT models' mean, which never reorders two different shares.
    """

    name = "reference"
    needs = ("log_odds",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """float64 (targets, columns)."""
        log_odds = signals.last("log_odds").astype(np.float64)
        _, unseen = both_sides(log_odds, design.in_mask, targets)
        scores = np.empty((len(targets), design.n_columns))
        for row, target in enumerate(targets):
            others = ~design.in_mask
            others[target] = False
            n_below = ((log_odds < log_odds[target]) & others).sum(axis=0)
            n_out = others.sum(axis=0)
            share = np.where(n_out > 0, n_below / np.maximum(n_out, 1), 0.5)
            above = log_odds[target] - unseen.mean[row]
            tie_break = 0.5 + above / (2 * (1 + np.abs(above)))  # in (0, 1), rises with `above`
            scores[row] = share + tie_break / (2 * design.n_models**2)
        return scores
