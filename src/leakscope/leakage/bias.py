"""The floor under every estimated KL, and the leakage above it.

Two independent K-sample fits of the *same* p-dimensional Gaussian differ: their KL is about
`p(p+3)/(2K)` in each direction, so a plug-in leakage never reaches zero. With S ~ Wishart(K-1)/(K-1),
`E[inv(S)] = inv(Sigma) (K-1)/(K-p-2)` gives the exact value (`exact_bias`): the log determinants cancel.

Both hold for Gaussian samples without added noise. What holds always is a null: two halves of *one*
condition. The trainings of both sides, each centred at its own mean, are pooled and split at random into
two halves of K; what these differ by is the floor of that record. It has K trainings a side like the
estimate itself, and knows heavy tails, noise and shrinkage. `corrected_symmetric_kl` takes it off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.gaussian import Gaussian, fit, symmetric_kl, with_noise

_N_SPLITS = 16
_RCOND = 1e-12


class Corrected(NamedTuple):
    """Symmetric KL of each record with its floor taken off, in nats; (records,) each.

    Attributes:
        value: about 0, on both sides of it, where nothing leaks; inf where the plug-in is; NaN where halves
            of one condition are told apart for sure already (few trainings with equal values).
        floor: what two halves of one condition differ by.
        low: lower end of the 95% interval; NaN where the value is infinite.
        high: upper end.
        plug_in: before the correction.
        reason: why some values are not finite; empty when all are.
    """

    value: FloatArray
    floor: FloatArray
    low: FloatArray
    high: FloatArray
    plug_in: FloatArray
    reason: str = ""


class Mean(NamedTuple):
    """Mean over records in nats with its 95% interval, and the median; the mean floor beside them."""

    value: float
    low: float
    high: float
    median: float
    floor: float
    reason: str = ""


def analytic_bias(p: int, k: int) -> float:
    """Expected KL, one direction, between two K-sample fits of one Gaussian: p(p+3)/(2K), in nats.

    To first order in 1/K; no added noise, no shrinkage. Both directions together: p(p+3)/K.
    """
    _check_counts(p, k)
    return p * (p + 3) / (2 * k)


def exact_bias(p: float, k: float) -> float:
    """The same without approximation: p (p + 1 + 2 (K-1)/K) / (2 (K-p-2)); inf for K <= p + 2."""
    _check_counts(p, k)
    if k <= p + 2:
        return float("inf")
    return p * (p + 1 + 2 * (k - 1) / k) / (2 * (k - p - 2))


def corrected_symmetric_kl(
    inside: npt.ArrayLike,
    outside: npt.ArrayLike,
    noise_sd: float = 0.0,
    n_splits: int = _N_SPLITS,
    seed: int = 0,
) -> Corrected:
    """Leakage of each record from K trainings with it and K without, floor taken off.

    `value = (plug_in - floor) (K-d-2)/(K-1)`: the factor undoes that inverses of sample covariances are too
    large (d: dimensions that the noise leaves, p without noise). All trainings must be independent, also
    those of one side and of the other: training sets shared by both sides make the plug-in fall below its
    floor. The interval has the first-order sampling variance and that of the floor's splits.

    Args:
        inside: float (..., K, p), parameters of K trainings with the record.
        outside: float (..., K, p), of K trainings without.
        noise_sd: of Gaussian noise added to every parameter, in closed form.
        n_splits: random splits the floor is the mean of.
        seed: of the splits, the same for every record.
    """
    sides = _checked_sides(inside, outside)
    if n_splits < 2:
        raise InputError(f"n_splits={n_splits}: must be at least 2")
    gaussians = [with_noise(fit(side), noise_sd) for side in sides]
    plug_in = symmetric_kl(gaussians[0], gaussians[1])
    nulls = _between_halves(sides, noise_sd, n_splits, seed)  # (splits, ...)
    floor, spread = _mean_and_variance(nulls)
    inverse_excess = _inverse_excess(gaussians, sides[0].shape[-2], noise_sd)
    # The first-order variance is twice the spread where nothing leaks, and there the spread is all there is.
    variance = np.maximum(_first_order_variance(sides, gaussians) - spread, spread) + spread / n_splits
    half_width = special.ndtri(0.975) * np.sqrt(variance) * inverse_excess
    value = (
        np.where(np.isinf(floor), np.nan, plug_in - np.where(np.isinf(floor), 0.0, floor)) * inverse_excess
    )
    value = np.where(np.isinf(plug_in), np.inf, value)
    half_width = np.where(np.isfinite(value), half_width, np.nan)
    return Corrected(
        value, floor, value - half_width, value + half_width, plug_in, _why_not_finite(value, plug_in)
    )


def mean_over_records(corrected: Corrected) -> Mean:
    """rho_KL: the mean over records, with a t interval over them (one record: its own interval).

    A mean that is not finite has no interval, and says why.
    """
    values, low, high = (np.ravel(v) for v in (corrected.value, corrected.low, corrected.high))
    mean, median, floor = (float(v) for v in (values.mean(), np.median(values), np.mean(corrected.floor)))
    if not np.isfinite(mean):
        return Mean(mean, float("nan"), float("nan"), median, floor, corrected.reason)
    if len(values) == 1:
        return Mean(mean, float(low[0]), float(high[0]), median, floor)
    half_width = float(special.stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values)))
    return Mean(mean, mean - half_width, mean + half_width, median, floor)


def _why_not_finite(value: FloatArray, plug_in: FloatArray) -> str:
    reasons = []
    for count, words in (
        (
            int(np.isinf(plug_in).sum()),
            "are told apart for sure: one side does not vary where the other does",
        ),
        (
            int(np.isnan(value).sum()),
            "have too few different trainings for a floor: their halves do not vary",
        ),
    ):
        if count:
            reasons.append(f"{count} of {value.size} records {words}")
    return "; ".join(reasons)


def _mean_and_variance(nulls: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Over the finite ones along the first axis; inf and 0 where fewer than two are."""
    finite = np.isfinite(nulls)
    n = finite.sum(axis=0)
    kept = np.where(finite, nulls, 0.0)
    mean = kept.sum(axis=0) / np.maximum(n, 1)
    variance = ((kept - mean) ** 2 * finite).sum(axis=0) / np.maximum(n - 1, 1)
    return np.where(n > 1, mean, np.inf), np.where(n > 1, variance, 0.0)


def _checked_sides(inside: npt.ArrayLike, outside: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    if first.shape != second.shape:
        raise InputError(f"inside {first.shape} and outside {second.shape}: must be one shape (..., K, p)")
    return first, second


def _between_halves(
    sides: tuple[FloatArray, FloatArray], noise_sd: float, n_splits: int, seed: int
) -> FloatArray:
    """Symmetric KL between random halves of the centred trainings of both sides; (splits, ...)."""
    pooled = np.concatenate([side - side.mean(axis=-2, keepdims=True) for side in sides], axis=-2)
    n_half, rng = sides[0].shape[-2], np.random.default_rng(seed)
    found = []
    for _ in range(n_splits):
        order = rng.permutation(2 * n_half)
        halves = [fit(pooled[..., rows, :]) for rows in (order[:n_half], order[n_half:])]
        found.append(symmetric_kl(*(with_noise(half, noise_sd) for half in halves)))
    return np.stack(found)


def _inverse_excess(gaussians: list[Gaussian], n: int, noise_sd: float) -> FloatArray:
    """1 / the factor by which inverses of sample covariances are too large; (...), 1 where K <= p + 2.

    In as many dimensions as the noise leaves: tr(S inv(S + sd^2 I)).
    """
    pooled = (gaussians[0].covariance + gaussians[1].covariance) / 2
    p = pooled.shape[-1]
    if n <= p + 2:
        return np.ones(pooled.shape[:-2])
    roots = np.maximum(np.linalg.eigvalsh(pooled), noise_sd**2)
    own = np.divide(roots - noise_sd**2, roots, out=np.zeros_like(roots), where=roots > 0)
    factor: FloatArray = (n - own.sum(axis=-1) - 2) / (n - 1)
    return factor


def _first_order_variance(sides: tuple[FloatArray, FloatArray], gaussians: list[Gaussian]) -> FloatArray:
    """Sampling variance of the plug-in by the delta method; (...). Near 0 where nothing leaks.

    With c = x - m1 and d = m1 - m0, one training x moves the sum of both directions by `c' A c + c' g` up
    to a constant: A = (inv(S0) - inv(S1) (S0 + d d') inv(S1)) / 2, g = (inv(S0) + inv(S1)) d.
    """
    unit = np.sqrt(np.diagonal(gaussians[0].covariance + gaussians[1].covariance, axis1=-2, axis2=-1))
    unit = np.where(unit > 0, unit, 1.0)
    covariances = [g.covariance / (unit[..., :, None] * unit[..., None, :]) for g in gaussians]
    inverse = [np.linalg.pinv(covariance, rcond=_RCOND, hermitian=True) for covariance in covariances]
    gap = ((gaussians[0].mean - gaussians[1].mean) / unit)[..., None]  # (..., p, 1)
    linear = (inverse[0] + inverse[1]) @ gap
    total = np.zeros(gaussians[0].mean.shape[:-1])
    for own, other in ((0, 1), (1, 0)):
        outer = covariances[other] + gap @ np.swapaxes(gap, -1, -2)
        quadratic = (inverse[other] - inverse[own] @ outer @ inverse[own]) / 2
        centred = (sides[own] - gaussians[own].mean[..., None, :]) / unit[..., None, :]  # (..., K, p)
        influence = ((centred @ quadratic) * centred).sum(axis=-1)
        influence = influence + (1 if own == 0 else -1) * (centred @ linear)[..., 0]
        total = total + influence.var(axis=-1, ddof=1) / sides[own].shape[-2]
    return total


def _check_counts(p: float, k: float) -> None:
    if not p > 0 or not k >= 2:
        raise InputError(f"p={p}, k={k}: needs at least one dimension and two trainings")
