"""IN and OUT distributions of each record from a handful of models, by borrowing strength across records.

With few models, a record's own variances and gap are mostly noise, and noise looks like leakage. Records of
the same difficulty are alike, so a record's moments are combined with those of records with a similar mean
output m, as in moderated t-tests (Smyth 2004). Three numbers are moderated in turn:

- The log ratio of the two variances, IN over OUT: a Gaussian prior around a trend in m; its sampling
  variance is `trigamma(df_in/2) + trigamma(df_out/2)`.
- The level of the two variances, given their ratio: `(d0 s0^2(m) + df s^2) / (d0 + df)`, with the trend
  `s0^2(m)` and the prior degrees of freedom d0 from the mean and the excess spread of `ln s^2`.
- The gap between the two means, in units of the root of the level: a mixture around a trend in m
  (`gap_prior`); its sampling variance is `v_in/n_in + v_out/n_out` in the same units, and what the level
  adds. Outputs that vary more between models also have larger gaps: in units of the outputs, gaps of loud
  records would make the prior wide for quiet ones.

The variance of a Gaussian prior is the scatter over records in excess of the sampling variance. A side with
one model has a mean only; a side with none is known from the trends alone. So every record has an estimate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.leakage.gap_prior import GapPrior, OwnGaps, fit_gap_prior
from leakscope.leakage.trends import NormalPrior, Posterior, Trend, bin_trend, normal_prior, quantile_bins

_MOST_PRIOR_DEGREES = 1e6
_SMALLEST_SHARE = 1e-6  # no variance falls below this share of the overall one
_TINY = 1e-30
_LEAST_DEGREES = 2.0  # of a level
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
    log_ratio = normal_prior(*own_log_ratio, observed.centre, bins)
    ratio = log_ratio.posterior(*own_log_ratio, observed.centre)
    level = _level_prior(*_own_level(observed, ratio.mean), observed.centre, bins, smallest)
    own_gaps = _own_gaps(observed, ratio, _level(observed, ratio, level, smallest), level)
    return Prior(log_ratio, level, fit_gap_prior(own_gaps, observed.centre, bins), smallest)


def moderate(observed: Moments, prior: Prior) -> Moderated:
    """Each record's own moments, combined with the prior."""
    ratio = prior.log_ratio.posterior(*_own_log_ratio(observed, prior.smallest_variance), observed.centre)
    level = _level(observed, ratio, prior.level, prior.smallest_variance)
    gap = prior.gap.posterior(_own_gaps(observed, ratio, level, prior.level), observed.centre)
    return Moderated(Posterior(gap.mean * np.sqrt(level), gap.variance * level), ratio, level)


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


def _level(observed: Moments, ratio: Posterior, prior: LevelPrior, smallest: float) -> FloatArray:
    own, degrees = _own_level(observed, ratio.mean)
    weight = degrees / (degrees + prior.degrees)
    level = weight * own + (1 - weight) * np.exp(prior.log_variance.at(observed.centre))
    return np.maximum(level, smallest)


def _own_gaps(observed: Moments, ratio: Posterior, level: FloatArray, prior: LevelPrior) -> OwnGaps:
    """In units of the level's root, which is estimated: the quotient would be too large on average."""
    half_ratio, none = np.exp(ratio.mean / 2), np.full_like(level, np.inf)
    inside = np.divide(half_ratio, observed.inside.n, out=none.copy(), where=observed.inside.n > 0)
    outside = np.divide(1 / half_ratio, observed.outside.n, out=none, where=observed.outside.n > 0)
    degrees = np.maximum(_own_degrees(observed) + prior.degrees, _LEAST_DEGREES)
    correction = 1 - 3 / (4 * degrees - 1)  # Hedges 1981
    value = correction * (observed.inside.mean - observed.outside.mean) / np.sqrt(level)
    return OwnGaps(value, correction**2 * (inside + outside), degrees)


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
