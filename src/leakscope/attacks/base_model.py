"""How much more likely is a document than under the base, which was not fine-tuned? (Carlini et al. 2021)

The base is a reference model that needs no training. It calibrates for how predictable a text is.
"""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block


class BaseModel(Attack):
    """The score is the mean log-probability of the tokens minus that under the base."""

    name = "base_model"
    needs = ("base_gap",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Carlini et al. 2021"

    def score(self, block: Block) -> FloatArray:
        """The difference."""
        return block.of_targets("base_gap")
