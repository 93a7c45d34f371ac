"""BaVarIA: LiRA with a conjugate prior on each record's mean and variance. (Brännvall 2026)

Each side of a record (the models trained with it, the models trained without it) has a Gaussian of unknown
mean and variance. Their prior is the normal-inverse-gamma distribution with the mean and the variance of the
side's values over all records, so a variance that a few models give is drawn toward the overall one:

    kappa = prior_mean_weight + n          alpha = prior_shape + n / 2
    beta = prior_beta + n variance / 2 + prior_mean_weight n (mean - prior mean)^2 / (2 kappa)

- `variant="n"`: Gaussians with the record's own means and the posterior means of the variances.
- `variant="t"`: the predictive distribution, Student's t with 2 alpha degrees of freedom around the posterior
  mean, with squared scale beta (kappa + 1) / (alpha kappa).

Constants are those of the author's released code: `prior_mean_weight` 1, `prior_shape` 1 for "n" and 2 for
"t", and `prior_beta` the overall variance. Where a side of a record has no model, the prior alone counts.

Offline, the IN side of every record is the prior: what the reference models give on their own training
records. If there are none, because the references saw no record of the audit, it is what the target itself
gives on all records, of which members are a part (our choice; the released code takes 0 and 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import scipy

from leakscope.array_types import FloatArray
from leakscope.attacks.base import References
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.label_fit import REGRESSION, LabelFit
from leakscope.attacks.moments import PooledSide, Side, left_out_moments, pooled
from leakscope.attacks.queries import AnySignal

_PRIOR_MEAN_WEIGHT = 1.0
_PRIOR_SHAPE = {"n": 1.0, "t": 2.0}
_SMALLEST_VARIANCE = 1e-10


class _Prior(NamedTuple):
    """Of one side: mean and variance over all records; (targets, 1) each."""

    mean: FloatArray
    variance: FloatArray


class _Known(NamedTuple):
    """What the Gaussians are fitted to, and the priors of both sides."""

    values_of: Callable[[Block], FloatArray]
    seen: _Prior
    unseen: _Prior


@dataclass(frozen=True)
class Bavaria(AnySignal):
    """BaVarIA on log-odds (of a regression: residuals); the module's docstring has the formulas.

    Attributes:
        variant: "n", Gaussians with posterior variances; "t", the predictive Student's t.
        online: both sides; offline: the IN side is the prior for every record.
        signal: the signal that is read; None: log-odds or residuals.
    """

    variant: Literal["n", "t"] = "n"
    online: bool = True
    signal: str | None = None

    name = "bavaria"
    needs = ("log_odds",)
    needs_in_regression = (REGRESSION,)
    is_log_ratio = True
    source = "Brännvall 2026"

    @property
    def references(self) -> References:
        """The offline variant fits models trained without the record only."""
        return "both" if self.online else "out"

    def statistics(self, blocks: Blocks) -> _Known:
        """The priors, from all records."""
        fit = LabelFit.to(blocks)
        is_signed = self.online and fit.noise_scale is not None
        values_of = partial(Block.signal, name=REGRESSION) if is_signed else fit.of
        of_all = pooled(blocks, values_of)
        own = _of_targets(blocks, values_of)
        unseen = _prior(of_all.unseen, _prior(of_all.seen, own))
        return _Known(values_of, _prior(of_all.seen, own), unseen)

    def score(self, block: Block) -> FloatArray:
        """Log density of the target's value as IN minus that as OUT."""
        known: _Known = block.statistics
        values = known.values_of(block)
        s = values[block.targets]
        unseen = left_out_moments(values, ~block.in_mask, block.targets, block.partners)
        seen = (
            left_out_moments(values, block.in_mask, block.targets, block.partners)
            if self.online
            else Side(*(np.zeros_like(s) for _ in Side._fields))
        )
        return self._log_density(s, seen, known.seen) - self._log_density(s, unseen, known.unseen)

    def _log_density(self, s: FloatArray, side: Side, prior: _Prior) -> FloatArray:
        """Log density of `s` given the side's models, without the constants that cancel."""
        shape = _PRIOR_SHAPE[self.variant]
        mean = np.where(side.n > 0, side.mean, prior.mean)
        scatter = np.where(side.n > 0, side.n * side.variance, 0.0)
        kappa, alpha = _PRIOR_MEAN_WEIGHT + side.n, shape + side.n / 2
        off = _PRIOR_MEAN_WEIGHT * side.n * (mean - prior.mean) ** 2 / kappa
        beta = prior.variance + (scatter + off) / 2  # for both shapes: shape - 1 is 0 ("as is") or 1
        if self.variant == "n":
            variance = np.where(alpha > 1, beta / np.maximum(alpha - 1, 0.5), beta)
            return np.asarray(-0.5 * ((s - mean) ** 2 / variance + np.log(variance)))
        centre = (_PRIOR_MEAN_WEIGHT * prior.mean + side.n * mean) / kappa
        square = 2 * beta * (kappa + 1) / kappa  # degrees of freedom times the squared scale
        body = (alpha + 0.5) * np.log1p((s - centre) ** 2 / square)
        return np.asarray(
            scipy.special.gammaln(alpha + 0.5) - scipy.special.gammaln(alpha) - 0.5 * np.log(square) - body
        )


def _prior(side: PooledSide, otherwise: _Prior) -> _Prior:
    """Of a side; `otherwise` where no record has a model on it."""
    missing = np.isnan(side.mean)
    variance = np.maximum(np.where(missing, otherwise.variance, side.total_variance), _SMALLEST_VARIANCE)
    return _Prior(np.where(missing, otherwise.mean, side.mean), variance)


def _of_targets(blocks: Blocks, values_of: Callable[[Block], FloatArray]) -> _Prior:
    """Mean and variance of each target's own values on all records."""

    def totals(block: Block) -> FloatArray:
        own = values_of(block)[block.targets]
        return np.stack([np.full(len(own), own.shape[1]), own.sum(axis=1), (own**2).sum(axis=1)])

    n, total, squares = np.sum(blocks.map(totals), axis=0)[:, :, None]
    return _Prior(total / n, np.maximum(squares / n - (total / n) ** 2, 0.0))
