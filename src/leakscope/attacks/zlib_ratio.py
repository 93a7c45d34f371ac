"""Loss and compressed size: is a text more likely than its own redundancy explains? (Carlini et al. 2021)"""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block


class ZlibRatio(Attack):
    """The score is minus the loss of a document per byte of its text compressed by zlib."""

    name = "zlib"
    needs = ("zlib_ratio",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Carlini et al. 2021"

    def score(self, block: Block) -> FloatArray:
        """Minus the ratio."""
        return -block.of_targets("zlib_ratio")
