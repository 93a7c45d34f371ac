"""Percentile bootstrap: over targets, over pairs of targets, over clusters of anything.

One engine, `cluster_bootstrap`: the statistic is a function of the cluster numbers drawn, so whatever a
cluster holds (a target's records, a repeat's models at all widths) stays together, and several quantities
computed in one call are resampled jointly. Differences of such quantities therefore are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.stats.intervals import Interval, check_level

RowStatistic = Callable[[FloatArray], float]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates with percentile intervals.

    Attributes:
        estimate: float64 (quantities,), the statistic of the clusters as they are.
        intervals: one a quantity; NaN ends when fewer than half of the draws gave a number.
        draws: float64 (draws, quantities), the statistic of each resample; NaN where undefined.
    """

    estimate: FloatArray
    intervals: tuple[Interval, ...]
    draws: FloatArray

    def share_below(self, value: float = 0.0) -> FloatArray:
        """Share of the defined draws at or below `value`, float64 (quantities,); NaN if none is defined."""
        defined = ~np.isnan(self.draws)
        n_defined = defined.sum(axis=0)
        n_below = (defined & (self.draws <= value)).sum(axis=0)
        share = np.full(len(n_defined), np.nan)
        np.divide(n_below, n_defined, out=share, where=n_defined > 0)
        return share


def cluster_bootstrap(
    statistic: Callable[[IntArray], npt.ArrayLike],
    n_clusters: int,
    n_draws: int = 2000,
    *,
    seed: int,
    level: float = 0.95,
) -> Bootstrap:
    """Resample whole clusters with replacement.

    Args:
        statistic: from cluster numbers, int64 (n_clusters,) with repetitions, to a number or to
            (quantities,); NaN for a resample where it is undefined.
        n_clusters: number of clusters.
        n_draws: number of resamples.
        seed: of the resamples; the same seed gives the same intervals.
        level: two-sided confidence.
    """
    check_level(level)
    if n_clusters < 1 or n_draws < 1:
        raise InputError(f"n_clusters and n_draws must be at least 1, got {n_clusters} and {n_draws}")
    rng = np.random.default_rng(seed)
    estimate = np.atleast_1d(np.asarray(statistic(np.arange(n_clusters)), dtype=np.float64))
    draws = np.empty((n_draws, len(estimate)))
    for draw in draws:
        draw[:] = statistic(rng.integers(n_clusters, size=n_clusters))
    intervals = tuple(_percentile_interval(column, level) for column in draws.T)
    return Bootstrap(estimate, intervals, draws)


def bootstrap_over_targets(
    values: npt.ArrayLike,
    statistic: RowStatistic = np.mean,
    *,
    seed: int,
    n_draws: int = 2000,
    level: float = 0.95,
) -> Bootstrap:
    """Resample targets.

    Args:
        values: float (targets, ...), one row a target.
        statistic: from resampled rows, (targets, ...), to a number.
        seed: of the resamples.
        n_draws: number of resamples.
        level: two-sided confidence.
    """
    rows = np.asarray(values, dtype=np.float64)
    return cluster_bootstrap(lambda at: statistic(rows[at]), len(rows), n_draws, seed=seed, level=level)


def paired_bootstrap(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    statistic: RowStatistic = np.mean,
    *,
    seed: int,
    n_draws: int = 2000,
    level: float = 0.95,
) -> Bootstrap:
    """`statistic(first) - statistic(second)`, the same rows drawn for both.

    Args:
        first: float (rows, ...), such as one attack's figures by target.
        second: float (rows, ...), row i belongs with row i of `first`.
        statistic: from resampled rows to a number.
        seed: of the resamples.
        n_draws: number of resamples.
        level: two-sided confidence.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(a) != len(b):
        raise InputError(f"pairs need equally many rows, got {len(a)} and {len(b)}")
    return cluster_bootstrap(
        lambda at: statistic(a[at]) - statistic(b[at]), len(a), n_draws, seed=seed, level=level
    )


def _percentile_interval(draws: FloatArray, level: float) -> Interval:
    defined = draws[~np.isnan(draws)]
    if 2 * len(defined) < len(draws):
        reason = f"undefined: {len(draws) - len(defined)} of {len(draws)} resamples have no value"
        return Interval(float("nan"), float("nan"), level, reason)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, f"percentile bootstrap, {len(defined)} draws")
