"""The gap attack: a record the model gets right was a member (Yeom et al. 2018, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.attacks.base import Attack
from leakscope.types import Design, FloatArray, IntArray, Signals


@dataclass(frozen=True)
class Correctness(Attack):
    """Score 1 where the prediction is right, else 0; its advantage is the train-test gap."""

    name = "correctness"
    needs = ("correct",)

    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """float64 (targets, columns)."""
        return signals.last("correct")[targets].astype(float)
