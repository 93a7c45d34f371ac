"""Percentile bootstrap over clusters.

The statistic is a function of the clusters drawn, so whatever belongs to a cluster (the records of a target,
the models of a repetition at all widths) stays together, and several quantities computed in one call are
resampled jointly. Their differences are therefore paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.stats.intervals import Interval, check_level


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates with percentile intervals.

    Attributes:
        estimate: float64 (quantities,), the statistic of the original clusters.
        intervals: one per quantity; NaN ends when fewer than half of the draws are defined.
        draws: float64 (draws, quantities), the statistic of each resample; NaN where undefined.
    """

    estimate: FloatArray
    intervals: tuple[Interval, ...]
    draws: FloatArray


def cluster_bootstrap(
    statistic: Callable[[IntArray], npt.ArrayLike],
    n_clusters: int,
    n_draws: int = 2000,
    *,
    seed: int,
    level: float = 0.95,
) -> Bootstrap:
    """Resamples whole clusters with replacement.

    Args:
        statistic: maps cluster indices, int64 (n_clusters,) with repetitions, to a number or to
            (quantities,); NaN for a resample where it is undefined.
        n_clusters: number of clusters.
        n_draws: number of resamples.
        seed: seed of the resamples; the same seed gives the same intervals.
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


def _percentile_interval(draws: FloatArray, level: float) -> Interval:
    defined = draws[~np.isnan(draws)]
    if 2 * len(defined) < len(draws):
        reason = f"undefined: {len(draws) - len(defined)} of {len(draws)} resamples have no value"
        return Interval(float("nan"), float("nan"), level, reason)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, f"percentile bootstrap, {len(defined)} draws")
