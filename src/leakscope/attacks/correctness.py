"""The gap attack: a record classified correctly is a member (Yeom et al. 2018, section 3.1)."""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block


class Correctness(Attack):
    """Score 1 where the prediction is correct, else 0; its advantage is the train-test gap."""

    name = "correctness"
    needs = ("correct",)
    is_binary = True
    default_for = ("population", "alone", "references", "out_references")
    source = "Yeom et al. 2018"

    def score(self, block: Block) -> FloatArray:
        """1 where correct, else 0."""
        return block.of_targets("correct")
