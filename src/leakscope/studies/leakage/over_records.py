"""Quantities over records: means, medians, intervals and boxes; leakage without its bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.leakage.bias import Crossed, crossed
from leakscope.leakage.experiment import Experiment
from leakscope.studies.leakage.results import Box, Leakage, OverRecords, RoundedLeakage

_N_DRAWS = 1000
LEVEL = 0.95
"""Confidence of all intervals."""


def over_records(values: FloatArray, seed: int) -> OverRecords:
    """Mean and median of (records,) with 95% intervals; infinite values are counted and excluded."""
    finite = values[np.isfinite(values)]
    n_infinite = len(values) - len(finite)
    reasons = (
        [f"{n_infinite} of {len(values)} records are perfectly separable and excluded"] if n_infinite else []
    )
    reasons += ["one record has no spread over records"] if len(finite) == 1 else []
    return OverRecords(
        n_infinite,
        "; ".join(reasons),
        *_with_interval(finite, np.mean, seed),
        *_with_interval(finite, np.median, seed),
    )


def box(values: FloatArray) -> Box:
    """The box plot of some values."""
    q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (q3 - q1)
    within = values[(values >= q1 - reach) & (values <= q3 + reach)]
    outliers = np.sort(values[(values < within.min()) | (values > within.max())])
    return Box(q1, median, q3, within.min(), within.max(), tuple(outliers.tolist()))


def _with_interval(
    values: FloatArray, statistic: Callable[..., Any], seed: int
) -> tuple[float | None, float | None, float | None]:
    """A mean or median of (records,) with its 95% percentile bootstrap interval."""
    value = float(statistic(values)) if len(values) else None
    if len(values) < 2:
        return value, None, None
    rows = np.random.default_rng(seed).integers(len(values), size=(_N_DRAWS, len(values)))
    low, high = np.quantile(statistic(values[rows], axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, float(low), float(high)


def leakage_over(rho: Crossed, seed: int, analytic_floor: float | None = None) -> Leakage:
    """The results of estimates of rho_KL, from those of each record."""
    plug_in, floor = (over_records(values, seed) for values in (rho.plug_in, rho.floor))
    return Leakage(**vars(over_records(rho.corrected, seed)), uncorrected=plug_in.mean, floor=floor.mean,
                   floor_low=floor.mean_low, floor_high=floor.mean_high,
                   analytic_floor=analytic_floor)  # fmt: skip


def corrected_leakage(experiment: Experiment, k: int) -> Crossed:
    """rho_KL of each record by Gaussian fits."""
    rho = crossed(experiment.inside, experiment.outside)
    return rho.without_inverse_excess(experiment.inside_mean.shape[-1], k)


def rounded_leakage(experiment: Experiment, k: int, seed: int) -> RoundedLeakage:
    """rho_KL of rounded parameters: from counts where every record has few distinct ones."""
    if np.isfinite(experiment.counted).all():
        counted = experiment.counted - experiment.counted_floor
        rho, method = Crossed(experiment.counted, experiment.counted_floor, counted), "counts"
    else:
        rho, method = corrected_leakage(experiment, k), "Gaussian fit"
    return RoundedLeakage(**vars(leakage_over(rho, seed)), method=method)
