"""Thousands of ridge regressions at once, in closed form.

A regression depends on its training set only through the sum of the second moments of (y, 1, x). A table
holds the moments of each record, so a training set is a sum of its rows (a sparse matrix of ones times the
table, without copies of the records). A set that grows adds the new rows, one that exchanges a record adds a
difference, and fewer features are a leading part of each row. All systems are then eliminated together, with
the models on the last, contiguous axis: at six parameters that is an order of magnitude faster than one call
to LAPACK per model.

The objective is that of Farokhi and Kaafar (2020): the mean of squared errors plus `weight * theta'theta`,
the intercept included. Where a training set does not determine the parameters (fewer records than parameters,
a constant column, weight 0), the solution of smallest norm is taken.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.errors import InputError

# A pivot below this share of its diagonal entry is rounding: the training set does not determine theta.
_RELATIVE_PIVOT = 1e-10


def moment_table(
    features: FloatArray, targets: FloatArray, intercepts: FloatArray | None = None
) -> FloatArray:
    """Second moments of each record; float64 (records, entries).

    A row is the lower triangle of `z z'` with z = (y, 1, x), row by row, so that the moments of the first
    features are its first entries. Records whose inputs (1, x) are clipped have `intercepts` (records,) in
    place of 1.
    """
    x, y = np.asarray(features, dtype=np.float64), np.asarray(targets, dtype=np.float64)
    if x.ndim != 2 or x.shape[:1] != y.shape or not len(y) or not x.shape[1]:
        raise InputError(
            f"features {x.shape} and targets {y.shape}: give (records, features) and (records,), none empty"
        )
    z = np.column_stack([y, np.ones(len(y)) if intercepts is None else intercepts, x])
    if not np.isfinite(z).all():
        raise InputError("features and targets must be finite; remove records with NaN or infinite values")
    row, column = np.tril_indices(z.shape[1])
    return np.ascontiguousarray(z[:, row] * z[:, column])


def draw_others(rng: np.random.Generator, n_records: int, record: int, n_draws: int, size: int) -> IntArray:
    """Ordered random sets of records without `record`; int64 (n_draws, size), each row without repeats.

    The first n of a row are a uniform set of n, so training sets of several sizes are nested. Repeats are
    redrawn until none is left. Every ordered set stays equally likely, as all records are treated alike.
    """
    if not 0 <= size < n_records:
        raise InputError(f"size={size}: must be from 0 to {n_records - 1}, the number of other records")
    if 4 * size > n_records:  # too many repeats to redraw
        order = rng.random((n_draws, n_records - 1)).argsort(axis=1)[:, :size]
    else:
        order = rng.integers(n_records - 1, size=(n_draws, size))
        rows = np.arange(n_draws)
        while len(rows):
            rows, repeats = _repeats(order, rows)
            order[repeats] = rng.integers(n_records - 1, size=len(repeats[0]))
    return order + (order >= record)


def _repeats(order: IntArray, rows: IntArray) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """Which of `rows` hold a value twice, and (row, position) of each repeat."""
    size = order.shape[1]
    keys = order[rows] * size + np.arange(size)  # by value, then by position
    keys.sort(axis=1)
    values = keys // size
    at, after = np.nonzero(values[:, 1:] == values[:, :-1])
    return rows[np.unique(at)], (rows[at], keys[at, after + 1] % size)


def moment_sums(table: FloatArray, draws: IntArray) -> FloatArray:
    """Moments of sets of records: float64 (models, entries) from record numbers (models, size)."""
    n_models, size = draws.shape
    ends = np.arange(0, n_models * size + 1, size) if size else np.zeros(n_models + 1, dtype=np.int64)
    ones = np.ones(n_models * size)
    members = sparse.csr_array((ones, draws.reshape(-1), ends), shape=(n_models, len(table)))
    sums: FloatArray = members @ table
    return sums


def ridge(
    sums: FloatArray, size: int, weight: float | FloatArray = 0.0, n_features: int | None = None
) -> FloatArray:
    """Parameters of the regressions on training sets of `size` records, intercept first; one row per model.

    Args:
        sums: float64 (models, entries), see `moment_sums`.
        size: records in each training set.
        weight: of `theta'theta` beside the mean squared error, 0 or more; or one weight per parameter.
        n_features: use the first features only; None: all.
    """
    if not np.all(np.asarray(weight) >= 0):
        raise InputError(f"weight={weight}: a ridge weight must be 0 or more")
    z = _unpacked(sums, n_features)  # (parameters + 1, parameters + 1, models)
    gram, right = z[1:, 1:].copy(), z[1:, 0].copy()
    diagonal = np.einsum("iim->im", gram)
    diagonal += size * np.broadcast_to(weight, len(diagonal))[:, None]
    theta, is_determined = _eliminate(gram.copy(), right.copy())
    loose = np.flatnonzero(~is_determined)
    if len(loose):
        theta[:, loose] = _minimum_norm(gram[..., loose], right[:, loose])
    return np.ascontiguousarray(theta.T)


def training_loss(sums: FloatArray, size: int, theta: FloatArray) -> FloatArray:
    """Mean squared error of each model on its own training set; float64 (models,)."""
    z = _unpacked(sums, theta.shape[1] - 1)
    contrast = np.concatenate([np.full((1, len(theta)), -1.0), theta.T])  # residual = (y, 1, x) . contrast
    squares: FloatArray = np.einsum("im,ijm,jm->m", contrast, z, contrast, optimize=True)
    return np.maximum(squares, 0.0) / size


def mean_square_inputs(sums: FloatArray, size: int, n_features: int) -> FloatArray:
    """Mean of `|(1, x)|^2` over each training set, which unit noise on theta adds to its loss; (models,)."""
    z = _unpacked(sums, n_features)
    return np.asarray(np.einsum("iim->m", z[1:, 1:])) / size


def _unpacked(sums: FloatArray, n_features: int | None) -> FloatArray:
    """Full symmetric moments with the models last; float64 (parameters + 1, parameters + 1, models)."""
    side = int((np.sqrt(8 * sums.shape[1] + 1) - 1) / 2) if n_features is None else n_features + 2
    row, column = np.tril_indices(side)
    position = np.empty((side, side), dtype=np.int64)
    position[row, column] = position[column, row] = np.arange(len(row))
    return np.ascontiguousarray(sums.T)[position]


def _eliminate(gram: FloatArray, right: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Eliminates symmetric systems in place: theta (parameters, models), and which are determined."""
    n_parameters, n_models = right.shape
    least = _RELATIVE_PIVOT * np.einsum("iim->im", gram)
    is_determined = np.ones(n_models, dtype=np.bool_)
    for j in range(n_parameters):
        is_determined &= gram[j, j] > least[j]
        pivot = np.where(is_determined, gram[j, j], 1.0)
        factor = gram[j + 1 :, j] / pivot
        gram[j + 1 :, j + 1 :] -= factor[:, None] * gram[j, j + 1 :]
        right[j + 1 :] -= factor * right[j]
        gram[j, j] = pivot
    for j in reversed(range(n_parameters)):
        right[j] -= np.einsum("im,im->m", gram[j, j + 1 :], right[j + 1 :])
        right[j] /= gram[j, j]
    return right, is_determined


def _minimum_norm(gram: FloatArray, right: FloatArray) -> FloatArray:
    """The solution of smallest norm of each system; float64 (parameters, models)."""
    systems = np.moveaxis(gram, -1, 0)
    inverse = np.linalg.pinv(systems, rcond=_RELATIVE_PIVOT, hermitian=True)
    return np.asarray(np.einsum("mij,jm->im", inverse, right))
