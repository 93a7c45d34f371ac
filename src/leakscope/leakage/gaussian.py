"""Gaussian fits of trained parameters, and the Kullback-Leibler (KL) divergence between two of them.

`KL(1||0) = (tr(inv(S0) S1) - p + (m0-m1)' inv(S0) (m0-m1) + ln(det S0 / det S1)) / 2`, in nats
(Farokhi and Kaafar 2020, Remark 3, with its trace term and transpose corrected).

Nothing is inverted. Both covariances are made diagonal together (`common_axes`); along these axes the two
Gaussians are products of independent one-dimensional ones. Every divergence is then a sum or a small integral
over axes and does not depend on how parameters are scaled or mixed, and singular covariances have a plain
meaning. An axis along which *neither* Gaussian varies is dropped, unless the two means differ there. An axis
along which only *one* varies separates the two perfectly, and the divergence is infinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, FloatArray
from leakscope.errors import InputError

# With fewer trainings than this times p, correlations shrink.
_ENOUGH_PER_DIMENSION = 4
# Rounding: variances below this share of the pooled ones, and means closer than this many sds.
_ROUNDING = 1e-9  # of a variance that is 1
_NO_VARIANCE = 1e-12
_NO_DIFFERENCE = 1e-5


class Gaussian(NamedTuple):
    """One Gaussian or many: mean (..., p), covariance (..., p, p), leading axes alike."""

    mean: FloatArray
    covariance: FloatArray


class Axes(NamedTuple):
    """Two Gaussians as products of one-dimensional ones; unit: the root of the mean of both variances.

    Attributes:
        difference: first mean minus second along each axis; (..., p), 0 on dropped axes.
        first: variance of the first along each axis; (..., p), 1 on dropped axes.
        second: variance of the second; first + second = 2.
        separate: (...), whether some axis separates the two perfectly.
    """

    difference: FloatArray
    first: FloatArray
    second: FloatArray
    separate: BoolArray

    def take(self, which: BoolArray) -> Axes:
        """The pairs where `which` (...) is true; leading axes become (records,)."""
        return Axes(self.difference[which], self.first[which], self.second[which], self.separate[which])


def fit(samples: npt.ArrayLike) -> Gaussian:
    """Mean and covariance (dividing by K - 1) of K >= 2 trainings; `samples` is float (..., K, p).

    With K < 4 p, correlations shrink towards 0 by the oracle approximating share (Chen, Wiesel, Eldar and
    Hero 2010). Variances do not, so the unit of a parameter does not matter.
    """
    values = _checked_samples(samples)
    n_trainings, p = values.shape[-2:]
    mean = values.mean(axis=-2)
    centred = values - mean[..., None, :]
    covariance = np.swapaxes(centred, -1, -2) @ centred / (n_trainings - 1)
    if n_trainings >= _ENOUGH_PER_DIMENSION * p:
        return Gaussian(mean, covariance)
    share = _oracle_share(covariance, n_trainings)
    return Gaussian(mean, covariance * (1 - share[..., None, None] * (1 - np.eye(p))))


def with_noise(g: Gaussian, sd: float) -> Gaussian:
    """The Gaussian of the parameters plus independent noise of this standard deviation: Sigma + sd^2 I."""
    if not sd >= 0:
        raise InputError(f"noise sd={sd}: must be 0 or more")
    return Gaussian(g.mean, g.covariance + sd**2 * np.eye(g.mean.shape[-1]))


def kl(first: Gaussian, second: Gaussian) -> FloatArray:
    """KL(first || second) in nats, never negative; (...). inf where the two are perfectly separable."""
    return kl_of_axes(common_axes(first, second))


def symmetric_kl(first: Gaussian, second: Gaussian) -> FloatArray:
    """The sum of both directions, in nats: rho_KL of one record; (...)."""
    axes = common_axes(first, second)
    return kl_of_axes(axes) + kl_of_axes(swapped(axes))


def common_axes(first: Gaussian, second: Gaussian) -> Axes:
    """Axes along which both are independent; leading axes broadcast.

    The mean of both covariances is whitened, then the first covariance is rotated to be diagonal, which makes
    the second diagonal as well.
    """
    pooled = (first.covariance + second.covariance) / 2
    difference = first.mean - second.mean
    size = np.maximum(np.abs(first.mean), np.abs(second.mean))
    scale = _scale(pooled, size)  # (..., p)
    correlation = pooled / (scale[..., :, None] * scale[..., None, :])
    roots, vectors = np.linalg.eigh(correlation)
    varies = roots > _NO_VARIANCE * correlation.shape[-1]
    whitening = vectors * (varies / np.sqrt(np.where(varies, roots, 1.0)))[..., None, :]
    whitening = whitening / scale[..., :, None]
    own = _between(whitening, first.covariance)
    own = own + np.eye(own.shape[-1]) * ~varies[..., None, :]  # dropped axes: variance 1 on both sides
    variance, rotation = np.linalg.eigh(own)
    variance = np.clip(variance, 0.0, 2.0)
    # Whitening a nearly singular covariance leaves errors; equal covariances have variance 1 on both sides.
    is_same = (first.covariance == second.covariance).all(axis=(-2, -1))[..., None]
    variance = np.where(is_same & (np.abs(variance - 1) > _ROUNDING), 1.0, variance)
    along = (np.swapaxes(whitening @ rotation, -1, -2) @ difference[..., None])[..., 0]
    in_gap = np.swapaxes(vectors, -1, -2) @ (difference / scale)[..., None]
    apart_in_gap = (~varies & (np.abs(in_gap[..., 0]) > _NO_DIFFERENCE)).any(axis=-1)
    one_only = (np.minimum(variance, 2 - variance) <= _NO_VARIANCE).any(axis=-1)
    return Axes(along, variance, 2 - variance, apart_in_gap | one_only)


def swapped(axes: Axes) -> Axes:
    """The same two Gaussians in the other order."""
    return axes._replace(difference=-axes.difference, first=axes.second, second=axes.first)


def kl_of_axes(axes: Axes) -> FloatArray:
    """KL(first || second) in nats; (...)."""
    first, second = (np.maximum(v, _NO_VARIANCE) for v in (axes.first, axes.second))
    ratio = first / second
    terms = ratio - 1 - np.log(ratio) + axes.difference**2 / second
    return np.where(axes.separate, np.inf, np.maximum(terms.sum(axis=-1), 0.0) / 2)


def _checked_samples(samples: npt.ArrayLike) -> FloatArray:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim < 2 or values.shape[-2] < 2 or values.shape[-1] < 1:
        raise InputError(f"samples {values.shape}: must be (..., trainings, parameters) with two trainings")
    n_bad = int((~np.isfinite(values)).sum())
    if n_bad:
        raise InputError(
            f"samples: {n_bad} of {values.size} values are NaN or infinite; drop those trainings"
        )
    return values


def _oracle_share(covariance: FloatArray, n: int) -> FloatArray:
    """Oracle approximating shrinkage of the correlations towards none; (...)."""
    p = covariance.shape[-1]
    sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    sd = np.where(sd > 0, sd, 1.0)
    correlation = covariance / (sd[..., :, None] * sd[..., None, :])
    squares = (correlation**2).sum(axis=(-2, -1))
    spread = (n + 1 - 2 / p) * (squares - p)
    above = (1 - 2 / p) * squares + p**2
    share: FloatArray = np.divide(above, spread, out=np.ones_like(squares), where=spread > above)
    return share


def _scale(pooled: FloatArray, size: FloatArray) -> FloatArray:
    """Unit of each parameter: its sd, or its size (or 1) where it does not vary; (..., p)."""
    sd = np.sqrt(np.diagonal(pooled, axis1=-2, axis2=-1))
    still = sd <= _NO_VARIANCE * size
    return np.where(still, np.where(size > 0, size, 1.0), sd)


def _between(vectors: FloatArray, covariance: FloatArray) -> FloatArray:
    product: FloatArray = np.swapaxes(vectors, -1, -2) @ covariance @ vectors
    return (product + np.swapaxes(product, -1, -2)) / 2
