"""RMIA: does the record's likelihood ratio exceed that of other records? (Zarifzadeh, Liu and Shokri 2024)

`ratio(x) = p_target(x) / p(x)`; the score is the share of population records z with
`ratio(x) / ratio(z) >= gamma`. Here the population is all records of the bank. The ratios of z are sorted
once and each x is looked up, so there is never a (records x records) matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack, References
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.calibrated import FitAndGap
from leakscope.attacks.label_fit import REGRESSION, LabelFit
from leakscope.attacks.moments import Side, both_sides, pooled
from leakscope.disk.scratch import evict_pages
from leakscope.types import Design, Signals

_SMALLEST_PROBABILITY = 1e-30


@dataclass(frozen=True)
class Rmia(Attack):
    """RMIA on the probability (of a regression: the relative density) of the label.

    Attributes:
        online: p(x) is the mean over IN and OUT models, with equal weight for both sides; offline: from OUT
            models only, `((1 + a) * mean_out + (1 - a)) / 2` (the paper's equation 10).
        gamma: the factor by which a record's ratio must exceed another's.
        offline_a: the paper's `a`.
        temperature: divides the log-odds, or the log-density, before they become probabilities.
    """

    online: bool = True
    gamma: float = 2.0
    offline_a: float = 0.33
    temperature: float = 1.0

    name = "rmia"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    source = "Zarifzadeh et al. 2024"

    @property
    def references(self) -> References:
        """The offline variant reads models trained without the record only."""
        return "both" if self.online else "out"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """All ratios, block by block; then the share of smaller ratios, target by target."""
        super().run(signals, design, targets, scores)
        for row in scores:
            row[:] = share_beaten(row, row, self.gamma)
            evict_pages(scores)

    def statistics(self, blocks: Blocks) -> FitAndGap:
        """How labels fit, and the mean gap between IN and OUT probabilities."""
        fit = LabelFit.to(blocks)
        return FitAndGap(fit, pooled(blocks, lambda block: fit.probability(block, self.temperature)).gap)

    def score(self, block: Block) -> FloatArray:
        """The record's likelihood ratio."""
        known: FitAndGap = block.statistics
        values = known.fit.probability(block, self.temperature)
        seen, unseen = both_sides(values, block, known.gap)
        return values[block.targets] / np.maximum(self._marginal(seen, unseen), _SMALLEST_PROBABILITY)

    def _marginal(self, seen: Side, unseen: Side) -> FloatArray:
        """p(x); (targets, columns)."""
        if self.online:
            return (seen.mean + unseen.mean) / 2
        return ((1 + self.offline_a) * unseen.mean + (1 - self.offline_a)) / 2


def share_beaten(ratio: FloatArray, population_ratio: FloatArray, gamma: float) -> FloatArray:
    """Share of the population whose ratio is at most `ratio / gamma`; (records,), O((N + Z) log Z)."""
    ascending = np.sort(population_ratio)
    beaten: FloatArray = np.searchsorted(ascending, ratio / gamma, side="right") / len(ascending)
    return beaten
