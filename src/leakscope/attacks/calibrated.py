"""Difficulty calibration (Watson et al. 2022): the signal minus its mean over models without the record."""

from __future__ import annotations

from typing import NamedTuple

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.label_fit import REGRESSION, LabelFit
from leakscope.attacks.moments import both_sides, pooled


class FitAndGap(NamedTuple):
    """How labels fit, and the mean gap between IN and OUT, (targets, 1)."""

    fit: LabelFit
    gap: FloatArray


class Calibrated(Attack):
    """Log-odds (of a regression: log-density) of the label minus their mean over OUT models."""

    name = "calibrated"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    references = "out"
    default_for = ("out_references",)
    source = "Watson et al. 2022"

    def statistics(self, blocks: Blocks) -> FitAndGap:
        """How labels fit, and the mean gap between IN and OUT."""
        fit = LabelFit.to(blocks)
        return FitAndGap(fit, pooled(blocks, fit.of).gap)

    def score(self, block: Block) -> FloatArray:
        """The fit minus the OUT mean."""
        known: FitAndGap = block.statistics
        values = known.fit.of(block)
        _, unseen = both_sides(values, block, known.gap)
        return values[block.targets] - unseen.mean
