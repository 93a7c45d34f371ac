"""The loss threshold: a record with a small loss was a member (Yeom et al. 2018, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.disk.scratch import over_blocks
from leakscope.types import Design, Signals


@dataclass(frozen=True)
class LossThreshold(Attack):
    """Score is minus the loss; needs no other model."""

    name = "loss"
    needs = ("loss",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Yeom et al. 2018"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Minus the loss."""
        loss = signals.last("loss")

        def fill(columns: slice) -> None:
            np.negative(loss[targets, columns], out=scores[:, columns])

        over_blocks(design.n_records, fill, loss, scores)
