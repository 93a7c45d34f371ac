"""How numbers of records depend on how easy a record is, and what that says about a record's own number.

Records of the same difficulty are alike, so their mean is what to expect of one of them (a prior), and a
record's own, noisy number is drawn towards it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray

_MOST_BINS = 20
_RECORDS_PER_BIN = 100


class Trend(NamedTuple):
    """How a number depends on the centre: its mean in quantile bins, linear in between; (bins,) each."""

    centre: FloatArray
    height: FloatArray

    def at(self, centre: FloatArray) -> FloatArray:
        """Its value at each centre (records,); constant beyond the ends."""
        return np.interp(centre, self.centre, self.height)


FLAT = Trend(np.zeros(1), np.zeros(1))


class Posterior(NamedTuple):
    """Posterior of one number of each record; (records,) each."""

    mean: FloatArray
    variance: FloatArray


class NormalPrior(NamedTuple):
    """Prior mean and variance of one of a record's numbers, by centre."""

    mean: Trend
    variance: Trend

    def posterior(self, own: FloatArray, noise: FloatArray, centre: FloatArray) -> Posterior:
        """The posterior of each record, from its own number and its sampling variance (inf: unknown)."""
        mean, variance = self.mean.at(centre), self.variance.at(centre)
        trust = variance / (variance + noise)
        return Posterior(mean + np.where(trust > 0, trust * (own - mean), 0.0), variance * (1 - trust))


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


def trend_with_mean(values: FloatArray, centre: FloatArray, bins: IntArray) -> Trend:
    """The trend of all values, in proportion such that its mean over the records is that of the values.

    Where bins lie far apart, as for outputs without a variance, the line between them misses that mean.
    """
    trend = bin_trend(values, centre, bins, np.ones(len(values), dtype=bool))
    mean = trend.at(centre).mean()
    return trend._replace(height=trend.height * (values.mean() / mean)) if mean else trend


def normal_prior(own: FloatArray, noise: FloatArray, centre: FloatArray, bins: IntArray) -> NormalPrior:
    """Trend of the records' numbers, and of their scatter around it beyond the sampling variance."""
    known = np.isfinite(noise)
    mean = bin_trend(own, centre, bins, known)
    excess = np.where(known, (own - mean.at(centre)) ** 2 - np.where(known, noise, 0.0), 0.0)
    variance = bin_trend(excess, centre, bins, known)
    return NormalPrior(mean, variance._replace(height=np.maximum(variance.height, 0.0)))
