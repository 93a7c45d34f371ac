"""Correlations with p-values and intervals.

An undefined correlation (of a constant, of too few points) is NaN, with a reason and without a warning.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.stats.bootstrap import Bootstrap, cluster_bootstrap
from leakscope.stats.intervals import Interval, fisher_interval

Coefficient = Literal["pearson", "spearman", "kendall"]
COEFFICIENTS: tuple[Coefficient, ...] = ("pearson", "spearman", "kendall")

# Spread below this share of the values' size is rounding, not signal.
_RELATIVE_ROUNDING = 1e-13
_DIGITS = 12
# Residuals below this share of the spread mean a variable is fixed by the others.
_RELATIVE_RESIDUAL = 1e-9


class Correlation(NamedTuple):
    """A correlation coefficient.

    Attributes:
        r: in [-1, 1]; NaN when undefined.
        p: two-sided p-value of "no correlation" (Student's t); NaN when undefined.
        interval: 95%, by Fisher's z.
        n: number of points.
        reason: why `r` is NaN; empty otherwise.
    """

    r: float
    p: float
    interval: Interval
    n: int
    reason: str = ""


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> Correlation:
    """Linear correlation of two float (points,) vectors."""
    a, b = _checked_pair(x, y)
    return _correlate(_centred(a), _centred(b))


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> Correlation:
    """Rank correlation of two float (points,) vectors; ties get their mean rank."""
    a, b = _checked_pair(x, y)
    return _correlate(_centred(midranks(a)), _centred(midranks(b)), rank=True)


def partial_correlation(
    x: npt.ArrayLike, y: npt.ArrayLike, given: npt.ArrayLike, *, rank: bool = False
) -> Correlation:
    """Correlation of the least-squares residuals of `x` and `y` given other variables.

    Args:
        x: float (points,).
        y: float (points,).
        given: float (points,) or (points, variables), held fixed.
        rank: use ranks of all variables (partial Spearman).
    """
    a, b = _checked_pair(x, y)
    held = np.asarray(given, dtype=np.float64).reshape(len(a), -1)  # (points, variables)
    columns = [_checked_pair(a, column)[1] for column in held.T]
    if rank:
        a, b, columns = midranks(a), midranks(b), [midranks(column) for column in columns]
    basis = _orthonormal(columns, len(a))
    return _correlate(_residual(a, basis), _residual(b, basis), rank=rank, n_given=basis.shape[1])


def compare_predictors(
    outcome: npt.ArrayLike,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    seed: int,
    n_draws: int = 2000,
    by: Coefficient = "pearson",
) -> Bootstrap:
    """Which of two quantities correlates more with the outcome? Paired over repetitions.

    Each array is averaged over the repetitions drawn, then correlated over settings.

    Args:
        outcome: float (repeats, settings), such as AUC by width.
        first: float (repeats, settings), such as the gap.
        second: float (repeats, settings) or (settings,), such as log parameters.
        seed: seed of the resamples.
        n_draws: number of resamples of repeats.
        by: the coefficient.

    Returns:
        Three quantities: the correlation with `first`, with `second`, and the difference of their absolute
        values; above zero means that `first` predicts better.
    """
    target, *predictors = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (outcome, first, second)))

    def correlations(repeats: IntArray) -> FloatArray:
        means = [mean_over(v[repeats], ranked=by != "pearson") for v in (target, *predictors)]
        r_first, r_second = (coefficient(means[0], mean, by) for mean in means[1:])
        return np.array([r_first, r_second, abs(r_first) - abs(r_second)])

    return cluster_bootstrap(correlations, len(target), n_draws, seed=seed)


def mean_over(repeats: FloatArray, ranked: bool) -> FloatArray:
    """Mean of (repeats, settings) over the repeats; with `ranked`, numbers in the order of these means.

    The last digits of a sum depend on its order. So where settings are ranked, the means are divided by the
    largest absolute one and rounded, so that equal means share a rank.
    """
    mean: FloatArray = repeats.mean(axis=0)
    largest = float(np.abs(mean).max())
    return np.round(mean / largest, _DIGITS) if ranked and largest > 0 else mean


def coefficient(x: FloatArray, y: FloatArray, by: Coefficient) -> float:
    """One correlation coefficient of two finite (points,) vectors, without p-value; NaN where undefined."""
    if by == "kendall":
        return kendall_tau(x, y)
    a, b = (_centred(midranks(v) if by == "spearman" else v) for v in (x, y))
    return float(np.clip(a @ b, -1, 1)) if len(a) > 2 and a.any() and b.any() else float("nan")


def kendall_tau(x: FloatArray, y: FloatArray) -> float:
    """Kendall's tau-b: concordant minus discordant pairs, ties allowed for; NaN for fewer than 3 points."""
    if len(x) < 3:
        return float("nan")
    first, second = (np.sign(v[:, None] - v[None, :]) for v in (x, y))
    untied = float(np.abs(first).sum()) * float(np.abs(second).sum())
    return float((first * second).sum() / np.sqrt(untied)) if untied else float("nan")


def midranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, with mean ranks for ties; float64 (points,)."""
    ascending = np.sort(values)
    below = np.searchsorted(ascending, values, side="left")
    not_above = np.searchsorted(ascending, values, side="right")
    return (below + not_above + 1) / 2


def _checked_pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise InputError(f"a correlation needs two vectors of one length, got {a.shape} and {b.shape}")
    n_bad = int((~np.isfinite(a) | ~np.isfinite(b)).sum())
    if n_bad:
        raise InputError(f"{n_bad} of {len(a)} points are NaN or infinite; drop them before correlating")
    return a, b


def _centred(values: FloatArray) -> FloatArray:
    """Deviations from the mean scaled to unit length; zeros when the values are constant."""
    if not len(values):
        return values
    largest = float(np.abs(values).max())
    scaled = values / largest if largest > 0 else values
    deviations: FloatArray = scaled - scaled.mean()
    length = float(np.linalg.norm(deviations))
    if length <= _RELATIVE_ROUNDING * np.sqrt(len(values)):
        return np.zeros(len(values))
    return deviations / length


def _orthonormal(columns: list[FloatArray], n: int) -> FloatArray:
    """Orthonormal basis of the centred columns; float64 (points, independent columns)."""
    centred = np.stack([_centred(column) for column in columns], axis=1) if columns else np.empty((n, 0))
    vectors, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    basis: FloatArray = vectors[:, sizes > _RELATIVE_RESIDUAL]
    return basis


def _residual(values: FloatArray, basis: FloatArray) -> FloatArray:
    """Unit-length residual of the values on the basis; zeros when nothing is left."""
    unit = _centred(values)
    residual: FloatArray = unit - basis @ (basis.T @ unit)
    length = float(np.linalg.norm(residual))
    return residual / length if length > _RELATIVE_RESIDUAL else np.zeros(len(values))


def _correlate(a: FloatArray, b: FloatArray, *, rank: bool = False, n_given: int = 0) -> Correlation:
    """Correlation of unit-length deviations; all zeros mean "constant"."""
    n = len(a)
    degrees = n - 2 - n_given
    constant = [name for name, v in (("x", a), ("y", b)) if not v.any()]
    reason = ""
    if degrees < 1:
        reason = f"{n} points are too few; at least {3 + n_given} are needed"
    elif constant:
        reason = f"{' and '.join(constant)} {'are' if len(constant) > 1 else 'is'} constant"
        reason += " once the others are held fixed" if n_given else ""
    r = float("nan") if reason else float(np.clip(a @ b, -1, 1))
    p = float("nan") if reason else float(scipy.special.betainc(degrees / 2, 0.5, (1 - r) * (1 + r)))
    return Correlation(r, p, fisher_interval(r, n, rank=rank, n_given=n_given), n, reason)
