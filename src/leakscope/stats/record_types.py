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

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray

_N_TYPES = 6
_N_ROUNDS = 80
_TOLERANCE = 1e-4  # the fit has converged when the mean log-likelihood per record gains less
_SMALLEST_SHARE = 1e-6  # variances never fall below this share of the overall variance
_PSEUDO_RECORDS = 1.0  # keeps every type's weight above zero
_MOST_COUNTS = 4096  # pairs of counts whose coefficients are kept: all targets of a fit have the same few
_PRODUCTS = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # places of the monomials 1, S, S', SS, SS', S'S'


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
    types, records = _start(sums, n_types), _by_counts(sums)
    smallest = max(_SMALLEST_SHARE * float(_overall_variance(sums)), resolution_variance)
    previous = -np.inf
    for _ in range(_N_ROUNDS):
        types, log_likelihood = _improved(types, records, smallest)
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
    """Log-likelihood of each record's values, up to a constant that depends on their number; (records,)."""
    records = _by_counts(sums)
    log_p = _log_p(records, [_coefficients_of(types, *counts) for counts in records.counts.tolist()])
    result: FloatArray = np.empty(len(records.order))
    result[records.order] = _normalized(log_p)
    return result


class _ByCounts(NamedTuple):
    """Records in the order of their counts: for given counts, a log-likelihood is a quadratic in the sums."""

    order: IntArray  # (records,)
    counts: FloatArray  # (counts, 2): IN and OUT
    groups: list[slice]  # the records with these counts
    monomials: FloatArray  # (8, records), see `_by_counts`


def _by_counts(sums: SideSums) -> _ByCounts:
    keys = (sums.n_in * (sums.n_out.max() + 1) + sums.n_out).astype(np.int64)
    keys = keys.astype(np.min_scalar_type(keys.max()))  # the sort of small integers takes linear time
    order = keys.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] + 1))
    n_in, s_in, q_in, n_out, s_out, q_out = (side[order] for side in sums)
    return _ByCounts(
        order,
        np.stack([n_in[starts], n_out[starts]], axis=1),
        [slice(start, end) for start, end in pairwise([*starts.tolist(), len(order)])],
        np.stack([np.ones_like(s_in), s_in, s_out, s_in**2, s_in * s_out, s_out**2, q_in, q_out]),
    )


def _log_p(records: _ByCounts, coefficients: Iterable[FloatArray]) -> FloatArray:
    """Log-likelihood under each type, of records in the order of their counts; (types, records)."""
    products = [c @ records.monomials[:, own] for c, own in zip(coefficients, records.groups, strict=True)]
    return products[0] if len(products) == 1 else np.concatenate(products, axis=1)


def _normalized(log_p: FloatArray) -> FloatArray:
    """The log of the sum of exp(log_p) over types; turns log_p into each type's share. (records,)."""
    largest = log_p.max(axis=0)
    log_p -= largest
    np.exp(log_p, out=log_p)
    total = log_p.sum(axis=0)
    log_p /= total
    log_total: FloatArray = largest + np.log(total)
    return log_total


@lru_cache(_MOST_COUNTS)
def _coefficients_of(types: RecordTypes, n_in: float, n_out: float) -> FloatArray:
    """Those of `_coefficients` for one pair of counts; (types, 8)."""
    only: FloatArray = _coefficients(types, _posterior(types, np.array([[n_in, n_out]])))[0]
    return only


def _coefficients(types: RecordTypes, p: _Posterior) -> FloatArray:
    """Coefficients of the log-likelihood under each type in the monomials; (counts, types, 8)."""
    noise_in, noise_out = types.noise.T
    (a, b), (_, c) = np.moveaxis(p.variance, (-2, -1), (0, 1))  # (counts, types) each
    (h_in, h_out), ones = p.pull.T, np.ones_like(a)
    constant = (
        -0.5 * (p.counts @ np.log(types.noise).T + p.log_determinant + p.prior_quadratic)
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
        -0.5 / noise_in * ones,
        -0.5 / noise_out * ones,
    ], axis=-1)  # fmt: skip


class _Posterior(NamedTuple):
    """Uncertainty of a record's two means given its counts, by type."""

    counts: FloatArray  # (counts, 2)
    variance: FloatArray  # (counts, types, 2, 2)
    log_determinant: FloatArray  # (counts, types), of prior covariance times posterior precision
    pull: FloatArray  # (types, 2), prior precision times prior mean
    prior_quadratic: FloatArray  # (types,), prior mean' prior precision prior mean


def _posterior(types: RecordTypes, counts: FloatArray) -> _Posterior:
    s_in, s_out, s_cross = types.covariance.T
    determinant = s_in * s_out - s_cross**2
    l_in, l_out, l_cross = s_out / determinant, s_in / determinant, -s_cross / determinant
    precision_in = l_in + counts[:, :1] / types.noise[:, 0]  # (counts, types)
    precision_out = l_out + counts[:, 1:] / types.noise[:, 1]
    posterior_determinant = precision_in * precision_out - l_cross**2
    cross = np.broadcast_to(-l_cross, precision_in.shape)
    adjugate = np.stack([precision_out, cross, cross, precision_in], axis=-1)
    mean_in, mean_out = types.mean.T
    pull = np.stack([l_in * mean_in + l_cross * mean_out, l_cross * mean_in + l_out * mean_out], axis=1)
    return _Posterior(
        counts,
        (adjugate / posterior_determinant[..., None]).reshape(*precision_in.shape, 2, 2),
        np.log(determinant) + np.log(posterior_determinant),
        pull,
        (types.mean * pull).sum(axis=1),
    )


def _improved(types: RecordTypes, records: _ByCounts, smallest: float) -> tuple[RecordTypes, float]:
    """One round of expectation and maximization, and the mean log-likelihood before it.

    A record's expected means are linear in its sums, so all that the maximization needs of the records is the
    sum of their monomials, weighted by how much of each type they are.
    """
    posterior = _posterior(types, records.counts)
    shares = _log_p(records, _coefficients(types, posterior))
    log_likelihood = float(_normalized(shares).mean())
    totals = np.stack([shares[:, own] @ records.monomials[:, own].T for own in records.groups])
    return _maximized(types, posterior, totals, smallest), log_likelihood


def _maximized(types: RecordTypes, p: _Posterior, totals: FloatArray, smallest: float) -> RecordTypes:
    """The types under which records of these totals, (counts, types, 8), are most likely."""
    products = totals[..., _PRODUCTS]  # (counts, types, 3, 3), of (1, sum in, sum out) with itself
    sizes = totals[..., 0]
    # (counts, types, 2, 3): a record's expected means are this matrix times (1, sum in, sum out).
    expected = p.variance @ np.concatenate([p.pull[:, :, None], np.eye(2) / types.noise[:, None]], axis=2)
    size = sizes.sum(axis=0) + 1e-12
    mean = (expected @ products[..., :1]).sum(axis=0)[..., 0] / size[:, None]
    centered = expected.copy()
    centered[..., 0] -= mean
    uncertain = p.variance * sizes[..., None, None]
    spread = (centered @ products @ centered.swapaxes(-2, -1) + uncertain).sum(axis=0) / size[:, None, None]
    squares = np.diagonal(expected @ products @ expected.swapaxes(-2, -1) + uncertain, 0, -2, -1)
    crossed = np.diagonal(expected @ products[..., 1:], 0, -2, -1)
    scatter = totals[..., 6:] - 2 * crossed + p.counts[:, None] * squares
    noise = _ratio(scatter.sum(axis=0), sizes.T @ p.counts, types.noise, smallest)
    covariance = spread[:, (0, 1, 0), (0, 1, 1)] + [smallest, smallest, 0.0]
    return RecordTypes((size + _PSEUDO_RECORDS) / (size + _PSEUDO_RECORDS).sum(), mean, covariance, noise)


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
