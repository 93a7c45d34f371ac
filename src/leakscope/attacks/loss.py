"""The loss threshold: a record with a small loss is a member (Yeom et al. 2018, section 3.2)."""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block


class LossThreshold(Attack):
    """The score is minus the loss; no reference model is needed."""

    name = "loss"
    needs = ("loss",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Yeom et al. 2018"

    def score(self, block: Block) -> FloatArray:
        """Minus the loss."""
        return -block.of_targets("loss")
