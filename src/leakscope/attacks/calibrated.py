"""Difficulty calibration (Watson et al. 2022): the signal minus its mean over models without the record."""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.moments import both_sides, log_odds_of, pooled


class Calibrated(Attack):
    """Log-odds minus their mean over OUT models."""

    name = "calibrated"
    needs = ("log_odds",)
    references = "out"
    default_for = ("out_references",)
    source = "Watson et al. 2022"

    def statistics(self, blocks: Blocks) -> FloatArray:
        """The mean gap between IN and OUT; (targets, 1)."""
        return pooled(blocks, log_odds_of).gap

    def score(self, block: Block) -> FloatArray:
        """Log-odds minus the OUT mean."""
        values = block.signal("log_odds")
        _, unseen = both_sides(values, block, block.statistics)
        return values[block.targets] - unseen.mean
