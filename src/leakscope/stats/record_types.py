"""Types of records: a prior over records, learned from all of them at once.

With few models, a record's own mean and variance are mostly noise. But there are types of records: easy ones,
whose output hardly changes when they are trained on, and hard ones, whose output changes a lot. This module
learns the types and computes the likelihood of a record's values under all of them.

The model: a record is of type k with probability `weight[k]`. Its mean outputs over models trained with it
(IN) and without it (OUT) are drawn jointly from a two-dimensional Gaussian (`mean[k]`, `covariance[k]`), and
each model's output scatters around them with variance `noise[k]` (IN and OUT separately). All integrals are
Gaussian, so the likelihood of a record's values has a closed form, even when one side has no values: the
covariance then carries over what is known from the other side.

Fitted by expectation-maximization (Dempster, Laird and Rubin 1977). Borrowing strength across units is
empirical Bayes (Robbins 1956; Smyth 2004 for moderated variances in genomics).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray

_N_TYPES = 6
_N_ROUNDS = 80
_TOLERANCE = 1e-4  # the fit has converged when the mean log-likelihood per record gains less
_SMALLEST_SHARE = 1e-6  # variances never fall below this share of the overall variance
_PSEUDO_RECORDS = 1.0  # keeps every type's weight above zero
_MOST_COUNTS = 4096  # pairs of counts whose coefficients are kept: all targets of a fit have the same few


class SideSums(NamedTuple):
    """Sufficient statistics of a record's IN and OUT values; float64 (records,) each."""

    n_in: FloatArray
    sum_in: FloatArray
    square_in: FloatArray
    n_out: FloatArray
    sum_out: FloatArray
    square_out: FloatArray

    def added(self, values: FloatArray, to_in: FloatArray | float, to_out: FloatArray | float) -> SideSums:
        """Adds one model's values so many times to each side; -1 removes them; (records,) each."""
        squares = values * values
        return SideSums(
            self.n_in + to_in,
            self.sum_in + to_in * values,
            self.square_in + to_in * squares,
            self.n_out + to_out,
            self.sum_out + to_out * values,
            self.square_out + to_out * squares,
        )


@dataclass(frozen=True, eq=False)
class RecordTypes:
    """A fitted prior; every array's first axis is the type.

    Attributes:
        weight: (types,), shares of records; sums to one.
        mean: (types, 2), mean outputs IN and OUT.
        covariance: (types, 3), over records of the type: variance IN, variance OUT, covariance.
        noise: (types, 2), variance over models of one record's outputs, IN and OUT.
    """

    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray
    noise: FloatArray


def side_sums(values: FloatArray, in_mask: BoolArray, used: BoolArray | None = None) -> SideSums:
    """Sums over models, or over those that are used; all arguments are (models, records)."""
    out_mask = ~in_mask
    if used is not None:
        in_mask, out_mask = in_mask & used, out_mask & used
    seen, unseen = np.where(in_mask, values, 0.0), np.where(out_mask, values, 0.0)
    n_in, n_out = in_mask.sum(axis=0).astype(float), out_mask.sum(axis=0).astype(float)
    squares = np.einsum("mr,mr->r", seen, seen), np.einsum("mr,mr->r", unseen, unseen)
    return SideSums(n_in, seen.sum(axis=0), squares[0], n_out, unseen.sum(axis=0), squares[1])


def fit_record_types(
    sums: SideSums, n_types: int = _N_TYPES, resolution_variance: float = 0.0
) -> RecordTypes:
    """Fits the prior by maximum likelihood, starting from types along the records' difficulty.

    Args:
        sums: statistics of all records.
        n_types: number of types.
        resolution_variance: lower bound on all variances, needed for values on a grid: a type whose values
            all tie would otherwise have no variance. See `resolution_variance`.
    """
    types = _start(sums, n_types)
    smallest = max(_SMALLEST_SHARE * float(_overall_variance(sums)), resolution_variance)
    previous = -np.inf
    for _ in range(_N_ROUNDS):
        types, log_likelihood = _improved(types, sums, smallest)
        if log_likelihood - previous < _TOLERANCE:
            break
        previous = log_likelihood
    return types


def resolution_variance(values: FloatArray) -> float:
    """Coarseness of the values: share of ties within a record times the squared median step; 0 without ties.

    Args:
        values: (models, records).
    """
    steps = np.diff(np.sort(values, axis=0), axis=0)
    if not (steps > 0).any():
        return 0.0
    return float((steps == 0).mean() * np.median(steps[steps > 0]) ** 2)


def log_marginal(types: RecordTypes, sums: SideSums) -> FloatArray:
    """Log-likelihood of each record's values, up to a constant that depends on their number; (records,).

    For given counts the result is a quadratic in the sums, so records of equal counts share one small matrix
    product.
    """
    result = np.empty(len(sums.n_in))
    monomials = np.stack([
        np.ones_like(sums.sum_in), sums.sum_in, sums.sum_out, sums.sum_in**2, sums.sum_in * sums.sum_out,
        sums.sum_out**2, sums.square_in, sums.square_out,
    ], axis=1)  # (records, 8)  # fmt: skip
    counts = sums.n_in + 1j * sums.n_out
    distinct = counts[:1] if (counts == counts[0]).all() else np.unique(counts)
    for count in distinct:
        rows = slice(None) if len(distinct) == 1 else np.flatnonzero(counts == count)
        result[rows] = _log_sum_exp(monomials[rows] @ _coefficients(types, count.real, count.imag))
    return result


@lru_cache(_MOST_COUNTS)
def _coefficients(types: RecordTypes, n_in: float, n_out: float) -> FloatArray:
    """Coefficients of the log-likelihood under each type in the monomials of `log_marginal`; (8, types)."""
    noise_in, noise_out = types.noise.T
    p = _posterior(types, np.array([n_in]), np.array([n_out]))
    a, b, c = p.variance_in[0], p.covariance[0], p.variance_out[0]  # of the record's means, given counts
    h_in, h_out = p.pull_in, p.pull_out
    constant = (
        -0.5
        * (n_in * np.log(noise_in) + n_out * np.log(noise_out) + p.log_determinant[0] + p.prior_quadratic)
        + 0.5 * (a * h_in**2 + 2 * b * h_in * h_out + c * h_out**2)
        + np.log(types.weight)
    )
    return np.stack([
        constant,
        (a * h_in + b * h_out) / noise_in,
        (b * h_in + c * h_out) / noise_out,
        0.5 * a / noise_in**2,
        b / (noise_in * noise_out),
        0.5 * c / noise_out**2,
        -0.5 / noise_in,
        -0.5 / noise_out,
    ])  # fmt: skip


class _Posterior(NamedTuple):
    """Uncertainty of a record's two means given its counts, by type; (records, types) or (types,)."""

    variance_in: FloatArray
    variance_out: FloatArray
    covariance: FloatArray
    log_determinant: FloatArray  # of prior covariance times posterior precision
    pull_in: FloatArray  # (types,), prior precision times prior mean
    pull_out: FloatArray
    prior_quadratic: FloatArray  # (types,), prior mean' prior precision prior mean


def _posterior(types: RecordTypes, n_in: FloatArray, n_out: FloatArray) -> _Posterior:
    s_in, s_out, s_cross = types.covariance.T
    determinant = s_in * s_out - s_cross**2
    l_in, l_out, l_cross = s_out / determinant, s_in / determinant, -s_cross / determinant
    precision_in = l_in + n_in[:, None] / types.noise[:, 0]  # (records, types)
    precision_out = l_out + n_out[:, None] / types.noise[:, 1]
    posterior_determinant = precision_in * precision_out - l_cross**2
    pull_in = l_in * types.mean[:, 0] + l_cross * types.mean[:, 1]
    pull_out = l_cross * types.mean[:, 0] + l_out * types.mean[:, 1]
    return _Posterior(
        variance_in=precision_out / posterior_determinant,
        variance_out=precision_in / posterior_determinant,
        covariance=-l_cross / posterior_determinant,
        log_determinant=np.log(determinant) + np.log(posterior_determinant),
        pull_in=pull_in,
        pull_out=pull_out,
        prior_quadratic=types.mean[:, 0] * pull_in + types.mean[:, 1] * pull_out,
    )


def _improved(types: RecordTypes, sums: SideSums, smallest: float) -> tuple[RecordTypes, float]:
    """One round of expectation and maximization, and the mean log-likelihood before it."""
    n_in, sum_in, square_in, n_out, sum_out, square_out = (s[:, None] for s in sums)
    noise_in, noise_out = types.noise.T
    p = _posterior(types, sums.n_in, sums.n_out)
    g_in, g_out = p.pull_in + sum_in / noise_in, p.pull_out + sum_out / noise_out  # (records, types)
    mean_in = p.variance_in * g_in + p.covariance * g_out
    mean_out = p.covariance * g_in + p.variance_out * g_out
    log_p = np.log(types.weight) - 0.5 * (
        n_in * np.log(noise_in) + n_out * np.log(noise_out) + square_in / noise_in + square_out / noise_out
        + p.log_determinant + p.prior_quadratic - mean_in * g_in - mean_out * g_out
    )  # fmt: skip
    total = _log_sum_exp(log_p)
    share = np.exp(log_p - total[:, None])  # (records, types): how much of each type a record is
    size = share.sum(axis=0) + 1e-12
    m_in, m_out = (share * mean_in).sum(axis=0) / size, (share * mean_out).sum(axis=0) / size
    d_in, d_out = mean_in - m_in, mean_out - m_out
    covariance = [
        (share * (d_in * d_in + p.variance_in)).sum(axis=0) / size + smallest,
        (share * (d_out * d_out + p.variance_out)).sum(axis=0) / size + smallest,
        (share * (d_in * d_out + p.covariance)).sum(axis=0) / size,
    ]
    scatter_in = square_in - 2 * mean_in * sum_in + n_in * (mean_in**2 + p.variance_in)
    scatter_out = square_out - 2 * mean_out * sum_out + n_out * (mean_out**2 + p.variance_out)
    noise = [
        _ratio((share * scatter_in).sum(axis=0), (share * n_in).sum(axis=0), noise_in, smallest),
        _ratio((share * scatter_out).sum(axis=0), (share * n_out).sum(axis=0), noise_out, smallest),
    ]
    weight = (size + _PSEUDO_RECORDS) / (size + _PSEUDO_RECORDS).sum()
    fitted = RecordTypes(
        weight, np.stack([m_in, m_out], axis=1), np.stack(covariance, axis=1), np.stack(noise, axis=1)
    )
    return fitted, float(total.mean())


def _start(sums: SideSums, n_types: int) -> RecordTypes:
    """Types along quantiles of the records' difficulty: the midpoint of the two sides' means."""
    gap = _usual_gap(sums)
    in_mean = np.where(sums.n_in > 0, sums.sum_in, 0) / np.maximum(sums.n_in, 1)
    out_mean = np.where(sums.n_out > 0, sums.sum_out, 0) / np.maximum(sums.n_out, 1)
    in_mean = np.where(sums.n_in > 0, in_mean, out_mean + gap)
    out_mean = np.where(sums.n_out > 0, out_mean, in_mean - gap)
    middle = (in_mean + out_mean) / 2
    edges = np.quantile(middle, np.arange(1, n_types) / n_types)
    kind = np.searchsorted(edges, middle)
    overall = _overall_variance(sums)
    means, covariances, noises = [], [], []
    for k in range(n_types):
        own = kind == k if (kind == k).any() else np.ones(len(kind), dtype=bool)
        means.append([in_mean[own].mean(), out_mean[own].mean()])
        covariances.append([in_mean[own].var() + 0.05 * overall, out_mean[own].var() + 0.05 * overall, 0.0])
        noises.append([
            _within(sums.square_in[own], sums.sum_in[own], sums.n_in[own], overall),
            _within(sums.square_out[own], sums.sum_out[own], sums.n_out[own], overall),
        ])  # fmt: skip
    return RecordTypes(
        np.full(n_types, 1 / n_types), np.array(means), np.array(covariances), np.array(noises)
    )


def _usual_gap(sums: SideSums) -> float:
    both = (sums.n_in > 0) & (sums.n_out > 0)
    if not both.any():
        return 0.0
    return float(np.mean(sums.sum_in[both] / sums.n_in[both] - sums.sum_out[both] / sums.n_out[both]))


def _overall_variance(sums: SideSums) -> float:
    n = float((sums.n_in + sums.n_out).sum())
    mean = float((sums.sum_in + sums.sum_out).sum()) / n
    return max(float((sums.square_in + sums.square_out).sum()) / n - mean**2, 1e-12)


def _within(squares: FloatArray, totals: FloatArray, n: FloatArray, overall: float) -> float:
    """Pooled variance around the records' means, shrunk slightly towards a tenth of the overall one."""
    several = n > 1
    scatter = float((squares[several] - totals[several] ** 2 / n[several]).sum())
    degrees = float((n[several] - 1).sum())
    return (scatter + 2 * 0.1 * overall) / (degrees + 2)


def _ratio(total: FloatArray, count: FloatArray, otherwise: FloatArray, smallest: float) -> FloatArray:
    """total / count, at least `smallest`; `otherwise` where the count is 0."""
    ratio = np.divide(total, count, out=otherwise.copy(), where=count > 1e-9)
    return np.maximum(ratio, smallest)


def _log_sum_exp(log_p: FloatArray) -> FloatArray:
    """Over the last axis; (records, types) -> (records,)."""
    largest = log_p.max(axis=1)
    total: FloatArray = largest + np.log(np.exp(log_p - largest[:, None]).sum(axis=1))
    return total
