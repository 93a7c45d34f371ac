"""LiRA: is the output more likely if the record was a member? (Carlini et al. 2022)

Each record has a Gaussian of its log-odds over the other models trained with it, and one over those trained
without it. Published implementations differ silently in five choices; here each is a named option:

- `online`: both Gaussians (the paper's algorithm 1), or the OUT one only (its offline variant).
- `centre`: "mean" (the paper) or "median" (the authors' released code).
- `variance`: "record", each record's own (the paper); "fixed", one per side around the record means
  (the paper, below 64 models); "global", one per side around the side's mean (the released code's fixed).
- `tail`, offline: "cdf", P(OUT < s) (the paper); "pdf", minus the OUT log-density (the released code).
- `leave_out`: in a balanced design, the target and a partner of each record, so that as many references
  were trained with it as without it ("pair"); or the target alone ("one", the paper), which gives an AUC
  below 0.5 where nothing leaks: a target trained on a record leaves fewer references that were.

In a regression, the Gaussians are those of the record's residual with its sign; with the record in training,
the residual lies closer to 0. A record with fewer than two references on a side gets the Gaussians of all
records, which rank it as plain loss does. The offline variant knows no IN side, so it reads the label's
log-density.

With `queries="all"` each query has its own Gaussians, and the score is the mean of the queries' scores, as in
the released code.

Leave-one-out moments come from sums, so M targets cost O(M N), not O(M^2 N); medians do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.base import Attack, References
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.label_fit import REGRESSION, LabelFit
from leakscope.attacks.moments import Pooled, PooledSide, Side, both_sides, pooled_each
from leakscope.attacks.queries import SeveralQueries, Values, values_of_queries

_SMALLEST_VARIANCE = 1e-12
_FEWEST_RESIDUALS = 2
"""References on each side of a record, to fit Gaussians to its residuals: no fixed gap parts the sides."""


class KnownValues(NamedTuple):
    """What Gaussians are fitted to, its moments over all records, and whether members lie closer to 0."""

    values_of: Values
    pooled: Pooled
    is_signed: bool


@dataclass(frozen=True)
class GaussianRatios(Attack):
    """LiRA on whatever a subclass gives; the module's docstring explains the options."""

    online: bool = True
    variance: Literal["fixed", "record", "global"] = "fixed"
    centre: Literal["mean", "median"] = "mean"
    tail: Literal["cdf", "pdf"] = "cdf"
    leave_out: Literal["pair", "one"] = "pair"

    @property
    def references(self) -> References:
        """The offline variant fits models trained without the record only."""
        return "both" if self.online else "out"

    @property
    def is_log_ratio(self) -> bool:
        """Whether the score is a log likelihood ratio (offline LiRA's is a tail probability)."""
        return self.online

    @property
    def leaves_pairs_out(self) -> bool:
        """Whether a partner is left out with the target."""
        return self.leave_out == "pair"

    def values(self, blocks: Blocks) -> list[Values]:
        """What Gaussians are fitted to, by query: functions of a block, float64 (models, records)."""
        raise NotImplementedError

    def statistics(self, blocks: Blocks) -> list[KnownValues]:
        """Moments over all records, of the values that Gaussians are fitted to."""
        several = self.values(blocks)
        of_all = pooled_each(blocks, several)
        is_signed = self.online and LabelFit.to(blocks).noise_scale is not None
        return [
            KnownValues(values_of, own, is_signed) for values_of, own in zip(several, of_all, strict=True)
        ]

    def score(self, block: Block) -> FloatArray:
        """log N(s; in) - log N(s; out) online; how far s lies above OUT offline; the mean over queries."""
        several: list[KnownValues] = block.statistics
        total = self._score(block, several[0])
        for known in several[1:]:
            total += self._score(block, known)
        return total / len(several)

    def _score(self, block: Block, known: KnownValues) -> FloatArray:
        values, of_all = known.values_of(block), known.pooled
        own = both_sides(values, block, of_all.gap)
        seen = self._with_variance(*own, of_all.seen, of_all.unseen)
        unseen = self._with_variance(*own[::-1], of_all.unseen, of_all.seen)
        if self.centre == "median":
            seen = _with_medians(seen, values, block.in_mask, block)
            unseen = _with_medians(unseen, values, ~block.in_mask, block)
        if known.is_signed:
            has_own = np.minimum(own[0].n, own[1].n) >= _FEWEST_RESIDUALS
            seen = _own_or_pooled(seen, of_all.seen, has_own)
            unseen = _own_or_pooled(unseen, of_all.unseen, has_own)
        s = values[block.targets]
        if self.online:
            return _log_density(s, seen) - _log_density(s, unseen)
        if self.tail == "pdf":
            return -_log_density(s, unseen)
        # The normal distribution function is increasing, so the standardized value ranks alike.
        standardised: FloatArray = (s - unseen.mean) / np.sqrt(unseen.variance)
        return standardised

    def _with_variance(self, side: Side, other: Side, of_all: PooledSide, of_other: PooledSide) -> Side:
        """The side with a variance for every record.

        With fewer than two models on either side a record's own variance is replaced by the pooled
        one: a ratio of an own to a pooled variance would reveal how many models are on which side.
        """
        usual = np.where(np.isnan(of_all.variance), of_other.variance, of_all.variance)
        usual = np.where(np.isnan(usual), 1.0, usual)  # (targets, 1)
        if self.variance == "global":
            usual = usual + of_all.variance_of_means
        own = (side.n > 1) & (other.n > 1) & (self.variance == "record")
        variance = np.maximum(np.where(own, side.variance, usual), _SMALLEST_VARIANCE)
        return side._replace(variance=variance)


@dataclass(frozen=True)
class Lira(SeveralQueries, GaussianRatios):
    """LiRA on log-odds (of a regression: residuals); the module's docstring explains the options.

    Attributes:
        signal: what Gaussians are fitted to instead; None: log-odds or residuals.
    """

    queries: Literal["one", "all"] = "one"
    signal: str | None = None

    name = "lira"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    default_for = ("population", "references")
    source = "Carlini et al. 2022"

    def values(self, blocks: Blocks) -> list[Values]:
        """Log-odds of each query; residuals with their sign online, in a regression."""
        fit = LabelFit.to(blocks)
        if self.online and fit.noise_scale is not None:
            return [partial(Block.signal, name=REGRESSION)]
        return values_of_queries(blocks, fit.of)


def _own_or_pooled(side: Side, of_all: PooledSide, has_own: BoolArray) -> Side:
    """The side, with the Gaussian of all records where a record has no own one."""
    mean = np.where(has_own, side.mean, of_all.mean)
    variance = np.maximum(of_all.total_variance, _SMALLEST_VARIANCE)
    return side._replace(mean=mean, variance=np.where(has_own, side.variance, variance))


def _with_medians(side: Side, values: FloatArray, mask: BoolArray, block: Block) -> Side:
    """The side with medians in place of means, where it has a model."""
    centre = side.mean.copy()
    for row in range(len(block.targets)):
        others = block.is_reference(row) & mask
        present = others.any(axis=0)
        masked = np.where(others[:, present], values[:, present], np.nan)
        centre[row, present] = np.nanmedian(masked, axis=0)
    return side._replace(mean=centre)


def _log_density(s: FloatArray, side: Side) -> FloatArray:
    """log N(s; mean, variance), without the constant that cancels."""
    return -0.5 * ((s - side.mean) ** 2 / side.variance + np.log(side.variance))
