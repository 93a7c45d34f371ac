"""RMIA: does the record's likelihood ratio exceed that of other records? (Zarifzadeh, Liu and Shokri 2024)

`ratio(x) = p_target(x) / p(x)`; the score is the share of population records z with
`ratio(x) / ratio(z) >= gamma`. Here the population is all records of the bank. The ratios of z are sorted
once and each x is looked up, so there is never a (records x records) matrix.

With `queries="all"` each query of x is compared with the same query of every z, and the score is the mean of
these shares over the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.base import References
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.label_fit import REGRESSION, LabelFit
from leakscope.attacks.moments import Side, both_sides, pooled_each
from leakscope.attacks.queries import SeveralQueries, Values, values_of_queries
from leakscope.disk.scratch import blocks, evict_pages
from leakscope.signals.registry import QUERY_LOG_ODDS
from leakscope.types import Design, Signals

_SMALLEST_PROBABILITY = 1e-30
_SHARES_AT_ONCE = 1 << 24  # targets x records


class _ProbabilityAndGap(NamedTuple):
    """Of one query: the probabilities of the label, and their mean gap IN - OUT, (targets, 1)."""

    probability: Values
    gap: FloatArray


@dataclass(frozen=True)
class Rmia(SeveralQueries):
    """RMIA on the probability (of a regression: the relative density) of the label.

    Attributes:
        online: p(x) is the mean over IN and OUT models, with equal weight for both sides; offline: from OUT
            models only, `((1 + a) * mean_out + (1 - a)) / 2` (the paper's equation 10).
        gamma: the factor by which a record's ratio must exceed another's.
        offline_a: the paper's `a`.
        temperature: divides the log-odds, or the log-density, before they become probabilities.
        queries: "one": the record itself; "all": every stored query.
        signal: what becomes a probability, as log-odds do; None: the usual signal.
    """

    online: bool = True
    gamma: float = 2.0
    offline_a: float = 0.33
    temperature: float = 1.0
    queries: Literal["one", "all"] = "one"
    signal: str | None = None

    name = "rmia"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    source = "Zarifzadeh et al. 2024"

    @property
    def references(self) -> References:
        """The offline variant reads models trained without the record only."""
        return "both" if self.online else "out"

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """All ratios, block by block; then the share of smaller ratios, target by target.

        Several queries are averaged for a quarter of the targets at a time, since the shares of one query
        are an array of their own.
        """
        if self.queries == "one":
            super().run(signals, design, targets, scores)
            self._replace_by_shares(scores)
            return
        at_once = max(1, min(_SHARES_AT_ONCE // design.n_records, -(-len(targets) // 4)))
        for some in blocks(len(targets), at_once):
            self._fill_with_means(scores[some], Blocks(signals, design, targets[some], (QUERY_LOG_ODDS,)))
            evict_pages(scores)

    def _fill_with_means(self, scores: FloatArray, blocks: Blocks) -> None:
        """The mean over queries of their shares; (targets, records)."""
        known, ratios = self.statistics(blocks), np.empty(scores.shape)
        scores[...] = 0.0
        for one in known:
            self._fill_with_ratios(ratios, blocks, one)
            self._replace_by_shares(ratios)
            ratios /= len(known)
            scores += ratios

    def _fill_with_ratios(self, ratios: FloatArray, blocks: Blocks, known: _ProbabilityAndGap) -> None:
        def fill(block: Block) -> None:
            ratios[:, block.records] = self._ratio(block, known)

        blocks.map(fill)

    def _replace_by_shares(self, ratios: FloatArray) -> None:
        for row in ratios:
            row[:] = share_beaten(row, row, self.gamma)
            evict_pages(ratios)

    def statistics(self, blocks: Blocks) -> list[_ProbabilityAndGap]:
        """For each query: how labels fit, and the mean gap between IN and OUT probabilities."""
        of = partial(LabelFit.to(blocks).probability, temperature=self.temperature)
        several = values_of_queries(blocks, of)
        gaps = [own.gap for own in pooled_each(blocks, several)]
        return [_ProbabilityAndGap(of_query, gap) for of_query, gap in zip(several, gaps, strict=True)]

    def score(self, block: Block) -> FloatArray:
        """The record's likelihood ratio."""
        return self._ratio(block, block.statistics[0])

    def _ratio(self, block: Block, known: _ProbabilityAndGap) -> FloatArray:
        values = known.probability(block)
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
