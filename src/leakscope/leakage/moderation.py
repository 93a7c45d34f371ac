"""IN and OUT distributions of each record from a handful of models, by borrowing strength across records.

With few models, a record's own variances and gap are mostly noise, and noise looks like leakage. Records of
the same difficulty are alike, so a record's moments are combined with those of records with a similar mean
output m, as in moderated t-tests (Smyth 2004). Three numbers are moderated in turn:

- The log ratio of the two variances, IN over OUT: a Gaussian prior around a trend in m; its sampling
  variance is `trigamma(df_in/2) + trigamma(df_out/2)`.
- The level of the two variances, given their ratio: `(d0 s0^2(m) + df s^2) / (d0 + df)`, with the trend
  `s0^2(m)` and the prior degrees of freedom d0 from the mean and the excess spread of `ln s^2`.
- The gap between the two means, in units of the root of the level: a mixture of Gaussians around a trend in
  m, from narrow to wide; its sampling variance is `v_in/n_in + v_out/n_out` in the same units, and what the
  level adds (Hedges 1981). Outputs that vary more between models also have larger gaps: in units of the
  outputs, gaps of loud records would make the prior wide for quiet ones. And most records may leak alike
  while a few leak much: one Gaussian would draw the few towards the others, or leave the noise of all.

The variance of a Gaussian prior is the scatter over records in excess of the sampling variance. A side with
one model has a mean only; a side with none is known from the trends alone. So every record has an estimate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray

_MOST_BINS = 20
_RECORDS_PER_BIN = 100
_MOST_PRIOR_DEGREES = 1e6
_SMALLEST_SHARE = 1e-6  # no variance falls below this share of the overall one
_TINY = 1e-30
_WIDTHS = np.array([0.0, 0.0625, 0.25, 1.0, 4.0, 16.0, 64.0])
"""Variances of the gap's prior, as multiples of the excess scatter of gaps."""
_LEAST_OF_MEAN_VARIANCE = 0.1  # of that scatter, in a bin where it happens to be small
_LEAST_SCATTER = 0.25
_ROUNDS = 30  # of expectation-maximization for seven weights
# Share of records whose outputs differ between models, at least, where outputs have steps. Of single trees on
# digits and on Gaussian classes it was 0.63 and more, of one that is nearly always right 0.014.
_LEAST_VARIED = 0.5
# A residual is usual that so many models have, on both sides; so many records may have rare others.
_USUAL, _MOST_RARE = 0.75, 0.01


class Side(NamedTuple):
    """Moments over one side's models; (records,) each. A variance of fewer than two models is 0."""

    n: FloatArray
    mean: FloatArray
    variance: FloatArray  # divides by n - 1


class Moments(NamedTuple):
    """Moments of both sides, and the mean over all models, which says how easy a record is."""

    inside: Side
    outside: Side
    centre: FloatArray


class Trend(NamedTuple):
    """How a number depends on the centre: its mean in quantile bins, linear in between; (bins,) each."""

    centre: FloatArray
    height: FloatArray

    def at(self, centre: FloatArray) -> FloatArray:
        """Its value at each centre (records,); constant beyond the ends."""
        return np.interp(centre, self.centre, self.height)


FLAT = Trend(np.zeros(1), np.zeros(1))


class NormalPrior(NamedTuple):
    """Prior mean and variance of one of a record's numbers, by centre."""

    mean: Trend
    variance: Trend

    def posterior(self, own: FloatArray, noise: FloatArray, centre: FloatArray) -> Posterior:
        """The posterior of each record, from its own number and its sampling variance (inf: unknown)."""
        mean, variance = self.mean.at(centre), self.variance.at(centre)
        trust = variance / (variance + noise)
        return Posterior(mean + np.where(trust > 0, trust * (own - mean), 0.0), variance * (1 - trust))


class GapPrior(NamedTuple):
    """Prior of a record's gap, by centre: Gaussians of several widths.

    Attributes:
        mean: of all of them.
        variance: that the widths are multiples of.
        weights: of the widths `_WIDTHS`; float64 (widths,).
    """

    mean: Trend
    variance: Trend
    weights: FloatArray

    def posterior(self, own: FloatArray, noise: FloatArray, centre: FloatArray) -> Posterior:
        """The mean and the variance of each record's posterior (arguments as of `NormalPrior.posterior`)."""
        mean, variance = self.mean.at(centre), _WIDTHS[:, None] * self.variance.at(centre)
        shares = self.weights[:, None] * _likelihood(own - mean, variance, noise)
        shares /= shares.sum(axis=0)
        trust = variance / np.maximum(variance + noise, _TINY)
        shift = np.where(trust > 0, trust * (own - mean), 0.0)
        mean_shift = (shares * shift).sum(axis=0)
        spread = (shares * (variance * (1 - trust) + (shift - mean_shift) ** 2)).sum(axis=0)
        return Posterior(mean + mean_shift, spread)


class Posterior(NamedTuple):
    """Posterior of one number of each record; (records,) each."""

    mean: FloatArray
    variance: FloatArray


class LevelPrior(NamedTuple):
    """ln s0^2 by centre, and its degrees of freedom."""

    log_variance: Trend
    degrees: float


class Prior(NamedTuple):
    """The prior of a record, learned from all records."""

    log_ratio: NormalPrior
    level: LevelPrior
    gap: GapPrior
    smallest_variance: float


class Moderated(NamedTuple):
    """A record's IN and OUT distributions; (records,) each.

    Attributes:
        gap: posterior of the mean IN minus the mean OUT.
        log_ratio: posterior of ln(variance IN / variance OUT).
        level: root of the product of the two variances.
    """

    gap: Posterior
    log_ratio: Posterior
    level: FloatArray


def moments(values: AnyArray, in_mask: BoolArray) -> Moments:
    """Moments over models; `values` and `in_mask` are (models, records)."""
    exact = values.astype(np.float64)
    centre = exact.mean(axis=0)
    exact -= centre
    total = exact.sum(axis=0)
    n_in = in_mask.sum(axis=0).astype(np.float64)
    sum_in = np.einsum("mr,mr->r", exact, in_mask)
    n_out = len(exact) - n_in
    mean_in, mean_out = sum_in / np.maximum(n_in, 1), (total - sum_in) / np.maximum(n_out, 1)
    np.multiply(exact, exact, out=exact)
    squares, squares_in = exact.sum(axis=0), np.einsum("mr,mr->r", exact, in_mask)
    return Moments(
        Side(n_in, mean_in + centre, _variance(squares_in, mean_in, n_in)),
        Side(n_out, mean_out + centre, _variance(squares - squares_in, mean_out, n_out)),
        centre,
    )


def why_too_few(observed: Moments) -> str:
    """Why no distributions can be fitted, in words; empty when they can."""
    if not ((observed.inside.n > 1) | (observed.outside.n > 1)).any():
        return "no record has two models that saw it, or two that did not: how outputs vary is unknown"
    if not ((observed.inside.n > 0) & (observed.outside.n > 0)).any():
        return "no record has models of both sides, some that saw it and some that did not"
    return ""


def why_not_gaussian(values: FloatArray, in_mask: BoolArray, has_steps: bool) -> str:
    """Why no Gaussian describes the outputs: empty where one does.

    Residuals: where nearly all models give a record the same one and a few another, the Gaussian of a side
    without deviations is a point, and that of the other is not: they look a whole bit apart. Outputs with
    steps: where most records get the same output from all models, the few others are taken for equally sure.
    """
    is_usual = values == np.sort(values, axis=0)[len(values) // 2]  # what most give is the median, too
    deviates = ~is_usual.all(axis=0)
    if has_steps:
        if not deviates.any() or deviates.mean() >= _LEAST_VARIED:
            return ""
        return (
            f"{(~deviates).sum():,} of {len(deviates):,} records get the same output from all models, and "
            "the others are too few to learn from"
        )
    shares = [(is_usual & side).sum(axis=0) / np.maximum(side.sum(axis=0), 1) for side in (in_mask, ~in_mask)]
    is_rare = deviates & (np.minimum(*shares) >= _USUAL)
    if is_rare.sum() <= _MOST_RARE * deviates.sum():
        return ""
    return (
        f"{is_rare.sum():,} of {len(is_rare):,} records get the same output from nearly all models, trained "
        "on them or not, and another from a few, which no Gaussian describes"
    )


def fit_prior(observed: Moments, resolution: float = 0.0) -> Prior:
    """The prior that these records suggest.

    Args:
        observed: moments of the records to learn from; `why_too_few` returns nothing for them.
        resolution: no variance falls below it (`stats.record_types.resolution_variance`).
    """
    smallest = max(_SMALLEST_SHARE * _overall_variance(observed), resolution, _TINY)
    bins = quantile_bins(observed.centre)
    own_log_ratio = _own_log_ratio(observed, smallest)
    log_ratio = _normal_prior(*own_log_ratio, observed.centre, bins)
    ratio = log_ratio.posterior(*own_log_ratio, observed.centre)
    level = _level_prior(*_own_level(observed, ratio.mean), observed.centre, bins, smallest)
    prior = Prior(log_ratio, level, GapPrior(FLAT, FLAT, np.zeros(len(_WIDTHS))), smallest)
    own_gap = _own_gap(observed, ratio, _level(observed, ratio, prior), level)
    return prior._replace(gap=_gap_prior(*own_gap, observed.centre, bins))


def moderate(observed: Moments, prior: Prior) -> Moderated:
    """Each record's own moments, combined with the prior."""
    ratio = prior.log_ratio.posterior(*_own_log_ratio(observed, prior.smallest_variance), observed.centre)
    level = _level(observed, ratio, prior)
    gap = prior.gap.posterior(*_own_gap(observed, ratio, level, prior.level), observed.centre)
    return Moderated(Posterior(gap.mean * np.sqrt(level), gap.variance * level), ratio, level)


def quantile_bins(centre: FloatArray) -> IntArray:
    """Bin of each record by quantiles of the centre; (records,)."""
    n_bins = min(max(len(centre) // _RECORDS_PER_BIN, 1), _MOST_BINS)
    if n_bins == 1:
        return np.zeros(len(centre), dtype=np.int64)
    return np.searchsorted(np.quantile(centre, np.arange(1, n_bins) / n_bins), centre)


def bin_trend(values: FloatArray, centre: FloatArray, bins: IntArray, used: BoolArray) -> Trend:
    """Mean of the used values in each non-empty bin, at the mean of their centres; 0 without any."""
    if not used.any():
        return FLAT
    count = np.bincount(bins[used])
    filled = count > 0
    means = [np.bincount(bins[used], weights=v[used])[filled] / count[filled] for v in (centre, values)]
    return Trend(means[0], means[1])


def _own_log_ratio(observed: Moments, smallest: float) -> tuple[FloatArray, FloatArray]:
    """ln(s_in^2 / s_out^2) without its bias, and its sampling variance, inf where a side has no variance."""
    logs, noise = [], np.zeros_like(observed.centre)
    for side in (observed.inside, observed.outside):
        bias, sampling = _of_log_variance(side.n - 1)
        logs.append(np.log(np.maximum(side.variance, smallest)) - bias)
        noise = noise + np.where(side.n > 1, sampling, np.inf)
    return logs[0] - logs[1], noise


def _own_level(observed: Moments, log_ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The variances' level given their log ratio, and its degrees of freedom."""
    degrees = [np.maximum(side.n - 1, 0.0) for side in (observed.inside, observed.outside)]
    half_ratio = np.exp(log_ratio / 2)
    scatter = (
        degrees[0] * observed.inside.variance / half_ratio
        + degrees[1] * observed.outside.variance * half_ratio
    )
    total = _own_degrees(observed)
    return scatter / np.maximum(total, 1), total


def _own_degrees(observed: Moments) -> FloatArray:
    """Degrees of freedom of a record's own level."""
    return np.maximum(observed.inside.n - 1, 0.0) + np.maximum(observed.outside.n - 1, 0.0)


def _level(observed: Moments, ratio: Posterior, prior: Prior) -> FloatArray:
    own, degrees = _own_level(observed, ratio.mean)
    weight = degrees / (degrees + prior.level.degrees)
    level = weight * own + (1 - weight) * np.exp(prior.level.log_variance.at(observed.centre))
    return np.maximum(level, prior.smallest_variance)


def _own_gap(
    observed: Moments, ratio: Posterior, level: FloatArray, prior: LevelPrior
) -> tuple[FloatArray, FloatArray]:
    """Mean IN minus mean OUT in units of the level's root, and its sampling variance; (records,) each.

    The variance is inf where a side has no model. The level is estimated as well, so the quotient is too
    large on average, and noisier the larger it is (Hedges 1981).
    """
    half_ratio, none = np.exp(ratio.mean / 2), np.full_like(level, np.inf)
    inside = np.divide(half_ratio, observed.inside.n, out=none.copy(), where=observed.inside.n > 0)
    outside = np.divide(1 / half_ratio, observed.outside.n, out=none, where=observed.outside.n > 0)
    degrees = np.maximum(_own_degrees(observed) + prior.degrees, 2.0)
    gap = (observed.inside.mean - observed.outside.mean) / np.sqrt(level) * (1 - 3 / (4 * degrees - 1))
    noise = inside + outside
    of_level = np.maximum(gap**2 - np.where(np.isfinite(noise), noise, 0.0), 0.0) / (2 * degrees)
    return gap, noise + of_level


def _gap_prior(own: FloatArray, noise: FloatArray, centre: FloatArray, bins: IntArray) -> GapPrior:
    """Weights of the widths by expectation-maximization, around the trend of all records."""
    mean, variance = _normal_prior(own, noise, centre, bins)
    least = _LEAST_OF_MEAN_VARIANCE * variance.height.mean()
    variance = variance._replace(height=np.maximum(variance.height, max(least, _TINY)))
    known = np.isfinite(noise)
    weights = np.full(len(_WIDTHS), 1 / len(_WIDTHS))
    if known.any():
        off, spread = (own - mean.at(centre))[known], _WIDTHS[:, None] * variance.at(centre[known])
        likelihood = _likelihood(off, spread, noise[known])
        for _ in range(_ROUNDS):
            weights = weights * (likelihood @ (1 / (weights @ likelihood))) / likelihood.shape[1]
    scatter = float(weights @ _WIDTHS)  # the weights say how it is spread over records, not how large it is
    return GapPrior(mean, variance._replace(height=variance.height / max(scatter, _LEAST_SCATTER)), weights)


def _likelihood(off: FloatArray, variance: FloatArray, noise: FloatArray) -> FloatArray:
    """Of each record's gap under each width, at most 1; (widths, records).

    `off` is the distance from the prior's mean.
    """
    known = np.isfinite(noise)
    total = np.where(known, variance + np.where(known, noise, 0.0), 1.0)
    log_p = np.where(known, -0.5 * (np.log(total) + off**2 / total), 0.0)
    return np.asarray(np.exp(log_p - log_p.max(axis=0)))


def _normal_prior(own: FloatArray, noise: FloatArray, centre: FloatArray, bins: IntArray) -> NormalPrior:
    """Trend of the records' numbers, and of their scatter around it beyond the sampling variance."""
    known = np.isfinite(noise)
    mean = bin_trend(own, centre, bins, known)
    excess = np.where(known, (own - mean.at(centre)) ** 2 - np.where(known, noise, 0.0), 0.0)
    variance = bin_trend(excess, centre, bins, known)
    return NormalPrior(mean, variance._replace(height=np.maximum(variance.height, 0.0)))


def _level_prior(
    own: FloatArray, degrees: FloatArray, centre: FloatArray, bins: IntArray, smallest: float
) -> LevelPrior:
    """From the mean and the excess spread of ln s^2 (Smyth 2004, section 6.2), with a trend."""
    known = degrees > 0
    bias, sampling = _of_log_variance(degrees)
    logs = np.log(np.maximum(own, smallest)) - bias
    trend = bin_trend(logs, centre, bins, known)
    excess = float(((logs - trend.at(centre)) ** 2 - sampling)[known].mean())
    worth = _MOST_PRIOR_DEGREES if excess <= 0 else min(2 * _trigamma_inverse(excess), _MOST_PRIOR_DEGREES)
    shift = float(scipy.special.digamma(worth / 2) - np.log(worth / 2))
    return LevelPrior(trend._replace(height=trend.height + shift), worth)


def _variance(squares: FloatArray, mean: FloatArray, n: FloatArray) -> FloatArray:
    variance: FloatArray = np.maximum(squares - n * mean**2, 0.0) / np.maximum(n - 1, 1)
    return variance


def _overall_variance(observed: Moments) -> float:
    sides = (observed.inside, observed.outside)
    within = sum(float((np.maximum(s.n - 1, 0) * s.variance).sum()) for s in sides)
    return within / max(sum(float(np.maximum(s.n - 1, 0).sum()) for s in sides), 1.0)


def _of_log_variance(degrees: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bias and variance of ln s^2 with so many degrees of freedom, counted as at least 1; (records,) each.

    digamma(df/2) - ln(df/2) and trigamma(df/2), looked up: degrees of freedom are few different integers.
    """
    at = np.maximum(degrees, 1).astype(np.int64)
    bias, variance = _log_variance_tables(int(at.max()))
    return bias[at - 1], variance[at - 1]


@lru_cache(maxsize=64)
def _log_variance_tables(most: int) -> tuple[FloatArray, FloatArray]:
    """Bias and variance of ln s^2 with 1 to `most` degrees of freedom; every permutation looks them up."""
    half = np.arange(1, most + 1) / 2
    return scipy.special.digamma(half) - np.log(half), scipy.special.polygamma(1, half)


def _trigamma_inverse(value: float) -> float:
    """The x > 0 with trigamma(x) = value, by Newton's steps on its reciprocal (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma, slope = (
            float(scipy.special.zeta(2, x)),
            -2 * float(scipy.special.zeta(3, x)),
        )  # quicker than polygamma
        step = trigamma * (1 - trigamma / value) / slope
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
