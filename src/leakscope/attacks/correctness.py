"""The gap attack: a record the model gets right was a member (Yeom et al. 2018, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.disk.scratch import over_blocks
from leakscope.types import Design, Signals


@dataclass(frozen=True)
class Correctness(Attack):
    """Score 1 where the prediction is right, else 0; its advantage is the train-test gap."""

    name = "correctness"
    needs = ("correct",)
    is_binary = True
    default_for = ("population", "alone", "references", "out_references")
    source = "Yeom et al. 2018"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """1 where right, else 0."""
        correct = signals.last("correct")

        def fill(columns: slice) -> None:
            scores[:, columns] = correct[targets, columns]

        over_blocks(design.n_records, fill, correct, scores)
