"""RMIA: does the record's likelihood ratio beat that of the population? (Zarifzadeh, Liu and Shokri 2024)

`ratio(x) = p_target(x) / p(x)`; the score is the share of population records z with
`ratio(x) / ratio(z) >= gamma`. Here the population is all records of the bank. The ratios of z are sorted
once and each x is looked up, so no (records x records) matrix is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.moments import Side, both_sides, pooled
from leakscope.disk.scratch import evict_pages, over_blocks
from leakscope.types import Design, Signals

_SMALLEST_PROBABILITY = 1e-30


@dataclass(frozen=True)
class Rmia(Attack):
    """RMIA on the true class's probability.

    Attributes:
        online: p(x) is the mean over IN and OUT models, weighing both sides alike; offline: from OUT
            models only, `((1 + a) * mean_out + (1 - a)) / 2` (the paper's equation 10).
        gamma: how much the ratio must be beaten by.
        offline_a: the paper's `a`.
        temperature: divides the log-odds before they become probabilities.
    """

    online: bool = True
    gamma: float = 2.0
    offline_a: float = 0.33
    temperature: float = 1.0

    name = "rmia"
    needs = ("log_odds",)
    references = "both"
    source = "Zarifzadeh et al. 2024"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Share of the population that is beaten: all ratios first, then target by target."""
        log_odds = signals.last("log_odds")

        def probability(columns: slice) -> FloatArray:
            scaled = log_odds[:, columns].astype(np.float64) / self.temperature
            return np.asarray(np.exp(-np.logaddexp(0.0, -scaled)))

        gap = pooled(probability, design, targets, log_odds).gap

        def fill(columns: slice) -> None:
            values = probability(columns)
            seen, unseen = both_sides(values, design.in_mask[:, columns], targets, gap)
            marginal = self._marginal(seen, unseen)
            scores[:, columns] = values[targets] / np.maximum(marginal, _SMALLEST_PROBABILITY)

        over_blocks(design.n_records, fill, log_odds, design.in_mask, scores)
        for row in scores:
            row[:] = share_beaten(row, row, self.gamma)
            evict_pages(scores)

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
