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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.stats.side_sums import SideSums, gap_of_sides, has_both, overall_variance, usual_gap

_N_TYPES = 6
_N_ROUNDS = 80
_TOLERANCE = 1e-4  # the fit has converged when the mean log-likelihood per record gains less
_N_ROUNDS_BESIDE, _TOLERANCE_BESIDE = 200, 1e-5  # the same where a model's membership is unknown
_CORRELATION_BESIDE = 0.9  # at that fit's start: a record's outputs are alike in all models
_SMALLEST_MEMBER_SHARE = 0.05
_SMALLEST_SHARE = 1e-6  # variances never fall below this share of the overall variance
_PSEUDO_RECORDS = 1.0  # keeps every type's weight above zero
_MOST_COUNTS = 4096  # pairs of counts whose coefficients are kept: all targets of a fit have the same few
_PRODUCTS = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # places of the monomials 1, S, S', SS, SS', S'S'
_UPPER = np.triu_indices(3)  # the same six in a symmetric matrix
_MULTIPLES = np.array([0.5, 1, 1, 0.5, 1, 0.5])  # those off the diagonal occur twice


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
    return fit_each([sums], n_types, [resolution_variance])[0]


def fit_each(
    sets: Sequence[SideSums], n_types: int, resolution_variances: Sequence[float]
) -> list[RecordTypes]:
    """Fits a prior to each of several sets of records; of small sets all at once cost no more than one."""
    started = [_start(sums, n_types, usual_gap(sums)) for sums in sets]
    return continued(started, sets, resolution_variances, _N_ROUNDS)


def continued(
    started: Sequence[RecordTypes],
    sets: Sequence[SideSums],
    resolution_variances: Sequence[float],
    n_rounds: int,
) -> list[RecordTypes]:
    """Improves a prior of each of several sets of records until it fits, or for so many rounds."""
    records = _by_counts(sets)
    types = RecordTypes(*(np.stack(parts) for parts in zip(*map(_parts, started), strict=True)))
    overall = np.array([overall_variance(sums) for sums in sets])
    smallest = np.maximum(_SMALLEST_SHARE * overall, resolution_variances)
    previous, is_fitted = np.full(len(sets), -np.inf), np.zeros(len(sets), dtype=bool)
    for _ in range(n_rounds):
        improved, log_likelihood = _improved(types, records, smallest)
        types = _chosen(is_fitted, types, improved) if is_fitted.any() else improved
        is_fitted |= log_likelihood - previous < _TOLERANCE
        if is_fitted.all():
            break
        previous = log_likelihood
    return [RecordTypes(*(part[at] for part in _parts(types))) for at in range(len(sets))]


def fit_beside(values: FloatArray, sums: SideSums, n_types: int, resolution_variance: float) -> RecordTypes:
    """Fits a prior to records and to the values of one more model, whose memberships nobody knows.

    A single value per record shows only the sum of the variances over records and over models. A second one
    shows how much of it is which, even if it may be IN or OUT. A record counts with its value on each side,
    as much as that side is likely; the share of members is fitted, too.

    Where no record has values on both sides, none shows a gap. A fit that starts without one takes members of
    this model for the others now and then, so the gap between the means of all values on either side is tried
    as well; the likelier fit counts.

    Args:
        values: (records,), of the model whose memberships are unknown.
        sums: statistics of the same records over the other models.
        n_types: as in `fit_record_types`.
        resolution_variance: as in `fit_record_types`.
    """
    sides = sums.added(values, 1.0, 0.0), sums.added(values, 0.0, 1.0)
    records = _by_counts([SideSums(*map(np.concatenate, zip(*sides, strict=True)))])
    smallest = np.maximum([_SMALLEST_SHARE * overall_variance(sums)], resolution_variance)
    gaps = [usual_gap(sums)] if has_both(sums).any() else [0.0, gap_of_sides(sums)]
    starts = [_start(sums, n_types, gap, _CORRELATION_BESIDE) for gap in gaps]
    tried = [_fitted_beside(start, records, smallest) for start in starts]
    return max(tried, key=lambda fitted: fitted[0])[1]


def _fitted_beside(start: RecordTypes, records: _ByCounts, smallest: FloatArray) -> tuple[float, RecordTypes]:
    """The mean log-likelihood and the types that a start leads to; records occur once for each side."""
    types = RecordTypes(*(part[None] for part in _parts(start)))
    share, previous = 0.5, -np.inf
    for _ in range(_N_ROUNDS_BESIDE):
        posterior, log_p = _expected(types, records)
        log_likelihood, of_in = _normalized_beside(log_p, records.order, share)
        if log_likelihood - previous < _TOLERANCE_BESIDE:
            break
        previous = log_likelihood
        share = float(np.clip(of_in, _SMALLEST_MEMBER_SHARE, 1 - _SMALLEST_MEMBER_SHARE))
        types = _maximized(types, records, posterior, _totals(log_p, records), smallest)
    return previous, RecordTypes(*(part[0] for part in _parts(types)))


def log_marginal(types: RecordTypes, sums: SideSums) -> FloatArray:
    """Log-likelihood of each record's values, up to a constant that depends on their number.

    The sums are (records,) or (targets, records), and so is the result.
    """
    records = _by_counts([SideSums(*map(np.ravel, sums))])
    log_p = _log_p(records, [_coefficients_of(types, *counts) for counts in records.counts.tolist()])
    result: FloatArray = np.empty(sums.sum_in.shape)
    result.reshape(-1)[records.order] = _normalized(log_p)
    return result


class _ByCounts(NamedTuple):
    """Sets of records by their counts: for given counts, log-likelihoods are quadratic in the sums."""

    order: IntArray  # (records of all sets,)
    counts: FloatArray  # (groups, 2): IN and OUT
    groups: list[slice]  # the records of one set with these counts
    set_of_group: IntArray  # (groups,)
    n_records: IntArray  # (sets,)
    monomials: FloatArray  # (8, records): 1, S, S', SS, SS', S'S', Q, Q' where S is the sum IN, S' OUT


def _by_counts(sets: Sequence[SideSums]) -> _ByCounts:
    n_records = np.array([len(sums.n_in) for sums in sets])
    sums = sets[0] if len(sets) == 1 else SideSums(*map(np.concatenate, zip(*sets, strict=True)))
    set_of = np.repeat(np.arange(len(sets)), n_records)
    width_in, width_out = int(sums.n_in.max()) + 1, int(sums.n_out.max()) + 1
    keys = ((set_of * width_in + sums.n_in) * width_out + sums.n_out).astype(np.int64)
    keys = keys.astype(np.min_scalar_type(keys.max()))  # the sort of small integers takes linear time
    order = keys.argsort(kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(keys[order])) + 1])
    n_in, s_in, q_in, n_out, s_out, q_out = (side[order] for side in sums)
    return _ByCounts(
        order,
        np.stack([n_in[starts], n_out[starts]], axis=1),
        [slice(start, end) for start, end in pairwise([*starts.tolist(), len(order)])],
        set_of[starts],
        n_records,
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
    counts = np.array([[n_in, n_out]])
    only: FloatArray = _coefficients(types, counts, _posterior(types, counts))[0]
    return only


class _Posterior(NamedTuple):
    """A record's two means given its counts, by type; (groups, types, ...)."""

    variance: FloatArray  # (..., 2, 2)
    expected: FloatArray  # (..., 2, 3): times (1, sum IN, sum OUT), the expected means
    quadratic: FloatArray  # (..., 3, 3): how likely the sums are, a quadratic in (1, sum IN, sum OUT)
    log_determinant: FloatArray  # of prior covariance times posterior precision
    prior_quadratic: FloatArray  # prior mean' prior precision prior mean


def _posterior(types: RecordTypes, counts: FloatArray) -> _Posterior:
    """For records of these counts, (groups, 2); types are the same for all groups, or one set for each."""
    s_in, s_out, s_cross = np.moveaxis(types.covariance, -1, 0)
    determinant = s_in * s_out - s_cross**2
    prior = _symmetric(s_out, s_in, -s_cross) / determinant[..., None, None]
    pull = (prior * types.mean[..., None, :]).sum(axis=-1)
    precision = prior[..., (0, 1), (0, 1)] + counts[:, None] / types.noise  # (groups, types, 2)
    p_in, p_out = precision[..., 0], precision[..., 1]
    posterior_determinant = p_in * p_out - prior[..., 0, 1] ** 2
    variance = _symmetric(p_out, p_in, -prior[..., 0, 1]) / posterior_determinant[..., None, None]
    forces = np.zeros((*types.noise.shape, 3))  # times (1, sum IN, sum OUT)
    forces[..., 0], forces[..., (0, 1), (1, 2)] = pull, 1 / types.noise
    expected = variance @ forces
    return _Posterior(
        variance,
        expected,
        forces.swapaxes(-2, -1) @ expected,
        np.log(determinant) + np.log(posterior_determinant),
        (types.mean * pull).sum(axis=-1),
    )


def _coefficients(types: RecordTypes, counts: FloatArray, p: _Posterior) -> FloatArray:
    """Coefficients of the log-likelihood under each type in the monomials; (groups, types, 8)."""
    coefficients = np.empty((*p.variance.shape[:2], 8))
    coefficients[..., :6] = p.quadratic[..., *_UPPER] * _MULTIPLES
    coefficients[..., 0] += np.log(types.weight) - 0.5 * (
        (counts[:, None] * np.log(types.noise)).sum(axis=-1) + p.log_determinant + p.prior_quadratic
    )
    coefficients[..., 6:] = -0.5 / types.noise
    return coefficients


def _improved(types: RecordTypes, records: _ByCounts, smallest: FloatArray) -> tuple[RecordTypes, FloatArray]:
    """One round of expectation and maximization, and the mean log-likelihoods before it.

    A record's expected means are linear in its sums, so all that the maximization needs of the records is the
    sum of their monomials, weighted by how much of each type they are.

    Args:
        types: of each set of records; (sets, types, ...).
        records: of all sets.
        smallest: (sets,), lower bound on variances.
    """
    posterior, shares = _expected(types, records)
    log_likelihood = np.add.reduceat(_normalized(shares), np.cumsum(records.n_records) - records.n_records)
    improved = _maximized(types, records, posterior, _totals(shares, records), smallest)
    return improved, log_likelihood / records.n_records


def _expected(types: RecordTypes, records: _ByCounts) -> tuple[_Posterior, FloatArray]:
    """The records' means by counts, and how likely each record is under each type of its set, as a log."""
    own = RecordTypes(*(part[records.set_of_group] for part in _parts(types)))
    posterior = _posterior(own, records.counts)
    return posterior, _log_p(records, _coefficients(own, records.counts, posterior))


def _normalized_beside(log_p: FloatArray, order: IntArray, share: float) -> tuple[float, float]:
    """The mean log-likelihood of records that occur twice, with a value IN and with the same value OUT.

    Turns log_p, (types, twice the records) in this order, into each type's share on each side. Also returns
    the mean share of IN; `share` is the one that is assumed.
    """
    of_sides = np.empty_like(log_p)
    of_sides[:, order] = log_p
    n_types, n_twice = log_p.shape
    by_side = of_sides.reshape(n_types, 2, -1)
    by_side += np.log([share, 1 - share])[:, None]
    log_likelihood = float(_normalized(of_sides.reshape(2 * n_types, -1)).mean())
    log_p[...] = of_sides[:, order]
    return log_likelihood, float(by_side[:, 0].sum() / (n_twice // 2))


def _totals(shares: FloatArray, records: _ByCounts) -> FloatArray:
    """Sums of the records' monomials, weighted by how much of each type they are; (groups, types, 8)."""
    return np.stack([shares[:, group] @ records.monomials[:, group].T for group in records.groups])


def _maximized(
    types: RecordTypes, records: _ByCounts, p: _Posterior, totals: FloatArray, smallest: FloatArray
) -> RecordTypes:
    """The types under which records of these totals, (groups, types, 8), are most likely."""
    first = np.searchsorted(records.set_of_group, np.arange(len(records.n_records)))

    def of_sets(of_groups: FloatArray) -> FloatArray:
        added: FloatArray = np.add.reduceat(of_groups, first)
        return added

    products, sizes = totals[..., _PRODUCTS], totals[..., 0]  # of (1, sum IN, sum OUT) with itself
    size = of_sets(sizes) + 1e-12
    mean = of_sets((p.expected @ products[..., :1])[..., 0]) / size[..., None]
    centered = p.expected.copy()
    centered[..., 0] -= mean[records.set_of_group]
    uncertain = p.variance * sizes[..., None, None]
    spread = of_sets(centered @ products @ centered.swapaxes(-2, -1) + uncertain) / size[..., None, None]
    covariance = spread[..., (0, 1, 0), (0, 1, 1)]
    covariance[..., :2] += smallest[:, None, None]
    crossed = p.expected @ products
    squares = (crossed @ p.expected.swapaxes(-2, -1) + uncertain)[..., (0, 1), (0, 1)]
    scatter = totals[..., 6:] - 2 * crossed[..., (0, 1), (1, 2)] + records.counts[:, None] * squares
    n_values = of_sets(sizes[..., None] * records.counts[:, None])
    noise = _ratio(of_sets(scatter), n_values, types.noise, smallest[:, None, None])
    weight = size + _PSEUDO_RECORDS
    return RecordTypes(weight / weight.sum(axis=1, keepdims=True), mean, covariance, noise)


def _symmetric(first: FloatArray, second: FloatArray, off: FloatArray) -> FloatArray:
    """Symmetric 2 x 2 matrices from their elements."""
    matrices = np.empty((*first.shape, 2, 2))
    matrices[..., 0, 0], matrices[..., 1, 1] = first, second
    matrices[..., 0, 1] = matrices[..., 1, 0] = off
    return matrices


def _parts(types: RecordTypes) -> tuple[FloatArray, ...]:
    return types.weight, types.mean, types.covariance, types.noise


def _chosen(is_first: BoolArray, first: RecordTypes, second: RecordTypes) -> RecordTypes:
    """Of each set the first types or the second."""
    chosen = second
    for kept, part in zip(_parts(first), _parts(chosen), strict=True):
        part[is_first] = kept[is_first]
    return chosen


def _start(sums: SideSums, n_types: int, gap: float, correlation: float = 0.0) -> RecordTypes:
    """Types along quantiles of the records' difficulty: the midpoint of the two sides' means.

    A side without values has the mean of the other one, raised or lowered by the gap. Within a type, the two
    means of a record are correlated as given.
    """
    in_mean = np.where(sums.n_in > 0, sums.sum_in, 0) / np.maximum(sums.n_in, 1)
    out_mean = np.where(sums.n_out > 0, sums.sum_out, 0) / np.maximum(sums.n_out, 1)
    in_mean = np.where(sums.n_in > 0, in_mean, out_mean + gap)
    out_mean = np.where(sums.n_out > 0, out_mean, in_mean - gap)
    middle = (in_mean + out_mean) / 2
    edges = np.quantile(middle, np.arange(1, n_types) / n_types)
    kind = np.searchsorted(edges, middle)
    overall = overall_variance(sums)
    means, covariances, noises = [], [], []
    for k in range(n_types):
        own = kind == k if (kind == k).any() else np.ones(len(kind), dtype=bool)
        means.append([in_mean[own].mean(), out_mean[own].mean()])
        variances = in_mean[own].var() + 0.05 * overall, out_mean[own].var() + 0.05 * overall
        covariances.append([*variances, correlation * np.sqrt(variances[0] * variances[1])])
        noises.append([
            _within(sums.square_in[own], sums.sum_in[own], sums.n_in[own], overall),
            _within(sums.square_out[own], sums.sum_out[own], sums.n_out[own], overall),
        ])  # fmt: skip
    return RecordTypes(
        np.full(n_types, 1 / n_types), np.array(means), np.array(covariances), np.array(noises)
    )


def _within(squares: FloatArray, totals: FloatArray, n: FloatArray, overall: float) -> float:
    """Pooled variance around the records' means, shrunk slightly towards a tenth of the overall one."""
    several = n > 1
    scatter = float((squares[several] - totals[several] ** 2 / n[several]).sum())
    degrees = float((n[several] - 1).sum())
    return (scatter + 2 * 0.1 * overall) / (degrees + 2)


def _ratio(total: FloatArray, count: FloatArray, otherwise: FloatArray, smallest: FloatArray) -> FloatArray:
    """total / count, at least `smallest`; `otherwise` where the count is 0."""
    ratio = np.divide(total, count, out=otherwise.copy(), where=count > 1e-9)
    return np.maximum(ratio, smallest)
