"""What to expect of a record's gap between its outputs IN and OUT: whatever distribution the gaps have.

Gaps count in units of a record's own spread over models. Most records may leak alike, or most hardly at all
and a few much; a single Gaussian would draw the few towards the others, or leave the others their noise. So
the prior is a mixture of narrow Gaussians side by side, which can take any shape, around the trend over how
easy records are. Expectation-maximization finds the weights: the nonparametric maximum likelihood estimate of
Kiefer and Wolfowitz (1956), stopped early, which keeps it smooth.

A record's spread is estimated as well, so a gap of d is observed as one of Student's t distribution, which is
noisier the larger d is (Hedges 1981).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.leakage.trends import FLAT, Posterior, Trend, normal_prior

_COMPONENTS = 15  # with 25, bits of made-up records differed by less than 1%
_WIDTH = 0.5  # of a component, as a multiple of the distance to the next
_ROUNDS = 60
_LEAST_SCALE = 0.1  # of the mean variance of gaps, or of their noise, in a bin where gaps happen to be alike


class OwnGaps(NamedTuple):
    """What models of both sides say about each record's gap; (records,) each.

    Attributes:
        value: mean IN minus mean OUT, in units of the spread.
        noise: sampling variance of the two means in these units; inf where a side has no model.
        degrees: degrees of freedom of the spread.
    """

    value: FloatArray
    noise: FloatArray
    degrees: FloatArray

    def take(self, rows: BoolArray) -> OwnGaps:
        """Of some records."""
        return OwnGaps(*(one[rows] for one in self))


class GapPrior(NamedTuple):
    """A mixture of Gaussians, moved and stretched by centre.

    Attributes:
        mean: of the records; components lie around it.
        scale: what `points` and `widths` are multiples of.
        points: of the components; float64 (components,).
        widths: their standard deviations; float64 (components,).
        weights: how likely each is; float64 (components,).
    """

    mean: Trend
    scale: Trend
    points: FloatArray
    widths: FloatArray
    weights: FloatArray

    def posterior(self, own: OwnGaps, centre: FloatArray) -> Posterior:
        """The mean and the variance of each record's gap given its own."""
        scale, known = self.scale.at(centre), np.isfinite(own.noise)
        at = self.mean.at(centre) + self.points[:, None] * scale  # (components, records)
        variance = (self.widths[:, None] * scale) ** 2
        total = variance + _observed_variance(own, at)
        shares = self.weights[:, None] * _likelihood(own, at, total)
        shares /= shares.sum(axis=0)
        trust = np.where(known, variance / total, 0.0)
        moved = at + np.where(known, trust * (own.value - at), 0.0)
        mean = (shares * moved).sum(axis=0)
        spread = (shares * (variance * (1 - trust) + (moved - mean) ** 2)).sum(axis=0)
        return Posterior(mean, spread)


def fit_gap_prior(own: OwnGaps, centre: FloatArray, bins: IntArray) -> GapPrior:
    """The prior that these records suggest."""
    known = np.isfinite(own.noise)
    if not known.any():
        return GapPrior(FLAT, FLAT, np.zeros(1), np.zeros(1), np.ones(1))
    of_means = np.maximum(own.value**2 - np.where(known, own.noise, 0.0), 0.0)
    mean, variance = normal_prior(own.value, own.noise + of_means / (2 * own.degrees), centre, bins)
    some, centre = own.take(known), centre[known]
    least = _LEAST_SCALE * max(float(variance.height.mean()), float(np.median(some.noise)))
    scale = variance._replace(height=np.sqrt(np.maximum(variance.height, least)))
    middle, unit = mean.at(centre), scale.at(centre)
    points, widths = _grid((some.value - middle) / unit)
    at = middle + points[:, None] * unit  # (components, records)
    total = (widths[:, None] * unit) ** 2 + _observed_variance(some, at)
    likelihood, weights = _likelihood(some, at, total), np.full(_COMPONENTS, 1 / _COMPONENTS)
    for _ in range(_ROUNDS):
        weights = weights * (likelihood @ (1 / (weights @ likelihood))) / len(centre)
    return GapPrior(mean, scale, points, widths, weights)


def _grid(deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points that cover all deviations, dense around 0, and the width of each component."""
    low, high = np.arcsinh(deviations.min()), np.arcsinh(deviations.max())
    points = np.sinh(np.linspace(low, high, _COMPONENTS))
    return points, _WIDTH * np.gradient(points)


def _observed_variance(own: OwnGaps, gap: FloatArray) -> FloatArray:
    """By how much an observed gap varies around a true one; `gap` is (components, records)."""
    noise = np.where(np.isfinite(own.noise), own.noise, 1.0)
    return np.asarray(noise + gap**2 / (2 * own.degrees))


def _likelihood(own: OwnGaps, at: FloatArray, variance: FloatArray) -> FloatArray:
    """Of each record's own gap under each component, at most 1; (components, records).

    Student's t, whose tails are those of a gap in units of an estimated spread. 1 where no gap is known.
    """
    deviations = (own.value - at) ** 2 / (variance * own.degrees)
    log_p = -0.5 * (np.log(variance) + (own.degrees + 1) * np.log1p(deviations))
    likelihood = np.exp(log_p - log_p.max(axis=0))
    return np.where(np.isfinite(own.noise), likelihood, 1.0)
