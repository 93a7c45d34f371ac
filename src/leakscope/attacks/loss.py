"""The loss threshold: a record with a small loss was a member (Yeom et al. 2018, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.scratch import over_blocks
from leakscope.types import Design, FloatArray, IntArray, Signals


@dataclass(frozen=True)
class LossThreshold(Attack):
    """Score is minus the loss; needs no other model."""

    name = "loss"
    needs = ("loss",)

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Minus the loss."""
        loss = signals.last("loss")

        def fill(columns: slice) -> None:
            np.negative(loss[targets, columns], out=scores[:, columns])

        over_blocks(design.n_columns, fill, loss, scores)
