"""The loss threshold: a record with a small loss was a member (Yeom et al. 2018, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.attacks.base import Attack
from leakscope.types import Design, FloatArray, IntArray, Signals


@dataclass(frozen=True)
class LossThreshold(Attack):
    """Score is minus the loss; needs no other model."""

    name = "loss"
    needs = ("loss",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """float64 (targets, columns)."""
        return -signals.last("loss")[targets].astype(float)
