"""Intervals from the two-way variance, for populations whose true variance is known."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.array_types import FloatArray
from leakscope.stats.two_way import Variance, two_way_variance

N_POPULATIONS = 6_000
N_MODELS = 8
N_RECORDS = 100


def _population(rng: np.random.Generator, common: float) -> FloatArray:
    """What each model and record adds to a figure whose true value is 0; float64 (models, records).

    The variance of the mean over models is 1 for what is independent from record to record, and `common` for
    what all records of a model share.
    """
    of_records = rng.normal(0, np.sqrt(N_MODELS / N_RECORDS), (N_MODELS, N_RECORDS))
    of_models = rng.normal(0, np.sqrt(N_MODELS * common), (N_MODELS, 1)) / N_RECORDS
    return np.asarray(of_records + of_models)


def _variance(values: FloatArray, n_sampled: int) -> Variance:
    """The variance of the mean over models of the whole figure, from the first `n_sampled` records."""
    sample = values[:, :n_sampled] * (N_RECORDS / n_sampled)
    parts = sample.mean(axis=0)
    without = (N_MODELS * parts - sample) / (N_MODELS - 1)
    return two_way_variance(parts, without, None, N_RECORDS, N_MODELS)


def _coverage(common: float, n_sampled: int) -> float:
    rng, n_held = np.random.default_rng(0), 0
    for _ in range(N_POPULATIONS):
        values = _population(rng, common)
        variance = _variance(values, n_sampled)
        reach = variance.quantile(0.95, these_records=True) * variance.standard_error(these_records=True)
        n_held += abs(float(values.mean(axis=0).sum())) <= reach
    return n_held / N_POPULATIONS


@pytest.mark.parametrize("common", [0.0, 0.2, 1.0, 3.0])
def test_intervals_hold_however_much_all_records_share(common: float) -> None:
    """The standard error of a share of 95% of 6,000 is 0.3 points; three of them are allowed."""
    assert _coverage(common, N_RECORDS) > 0.95 - 3 * 0.0028


@pytest.mark.parametrize(("common", "n_sampled"), [(0.0, 50), (0.5, 50), (2.0, 50), (2.0, 20), (5.0, 20)])
def test_intervals_hold_where_attacks_are_repeated_on_a_sample(common: float, n_sampled: int) -> None:
    """A sample of one fifth has 5 units of variance where all records have 1."""
    assert _coverage(common, n_sampled) > 0.93


def test_a_jackknife_that_says_less_than_the_records_leaves_no_doubt() -> None:
    """Then the variance is that of the records, and 1.96 standard errors are enough."""
    of_records = Variance(0.0, 1.0, 1.0, 0.0, 0.6, 7)
    assert of_records.quantile(0.95, these_records=True) == pytest.approx(1.96, abs=1e-3)


def test_the_jackknife_alone_has_its_own_degrees_of_freedom() -> None:
    """The t quantile of 7 degrees of freedom; what is known for sure brings it nearer to the normal one."""
    of_models = Variance(0.5, 0.5, 3.5, 0.0, 1.0, 7)
    assert of_models.quantile(0.95, these_records=True) == pytest.approx(2.3646, abs=1e-3)
    assert 1.96 < of_models.quantile(0.95, these_records=False) < 2.0
