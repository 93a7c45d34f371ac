"""Thresholds on one output of the target (Yeom et al. 2018).

A member has a small loss (section 3.2), or is classified correctly (section 3.1, the gap attack).
"""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block
from leakscope.signals.registry import LANGUAGE, Task


class LossThreshold(Attack):
    """The score is minus the loss (of a regression: the squared error); no reference model is needed."""

    name = "loss"
    needs = ("loss",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Yeom et al. 2018"

    def score(self, block: Block) -> FloatArray:
        """Minus the loss."""
        return -block.of_targets("loss")


class Correctness(Attack):
    """Score 1 where the prediction is correct, else 0; its advantage is the train-test gap."""

    name = "correctness"
    needs = ("correct",)
    is_binary = True
    default_for = ("population", "alone", "references", "out_references")
    source = "Yeom et al. 2018"

    def reads(self, task: Task) -> tuple[str, ...]:
        """The signals it reads; none from language models, which predict many tokens of a document."""
        return () if task == LANGUAGE else super().reads(task)

    def score(self, block: Block) -> FloatArray:
        """1 where correct, else 0."""
        return block.of_targets("correct")
