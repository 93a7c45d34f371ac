import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.stats.bootstrap import cluster_bootstrap


def test_the_mean_is_covered_as_often_as_stated():
    rng = np.random.default_rng(0)
    covered = []
    for seed in range(200):
        values = rng.standard_normal(40)
        found = cluster_bootstrap(lambda at, values=values: values[at].mean(), 40, 300, seed=seed)
        covered.append(0.0 in found.intervals[0])
    assert 0.89 <= np.mean(covered) <= 0.98


def test_same_seed_same_interval():
    values = np.random.default_rng(0).standard_normal(20)
    first, again, other = (
        cluster_bootstrap(lambda at: values[at].mean(), 20, 200, seed=s) for s in (1, 1, 2)
    )
    assert first.intervals == again.intervals
    assert first.intervals != other.intervals


def test_clusters_stay_together():
    # Two rows that cancel within each cluster: resampling whole clusters must leave no spread at all.
    values = np.random.default_rng(0).standard_normal(12)
    rows = np.stack([values, -values], axis=1)
    found = cluster_bootstrap(lambda at: rows[at].mean(), 12, 100, seed=0)
    np.testing.assert_allclose(found.draws, 0, atol=1e-15)


def test_pairing_removes_what_both_share():
    rng = np.random.default_rng(0)
    shared = 10 * rng.standard_normal(50)
    better, worse = shared + 0.5 + 0.1 * rng.standard_normal(50), shared
    difference = better - worse
    paired = cluster_bootstrap(lambda at: difference[at].mean(), 50, 500, seed=0).intervals[0]
    assert 0.5 in paired
    assert paired.high - paired.low < 0.1


def test_several_quantities_at_once():
    values = np.arange(10.0)
    found = cluster_bootstrap(lambda at: [values[at].mean(), -values[at].mean()], 10, 400, seed=0)
    assert found.draws.shape == (400, 2)
    np.testing.assert_array_equal(found.draws[:, 0], -found.draws[:, 1])


def test_undefined_resamples_are_left_out_and_too_many_leave_nothing():
    values = np.arange(6.0)
    partly = cluster_bootstrap(lambda at: np.nan if at[0] == 0 else values[at].mean(), 6, 200, seed=0)
    n_defined = int((~np.isnan(partly.draws)).sum())
    assert 120 < n_defined < 200
    assert f"{n_defined} draws" in partly.intervals[0].method
    never = cluster_bootstrap(lambda at: np.nan, 6, 20, seed=0)
    assert np.isnan(never.intervals[0].low)
    assert "20 of 20" in never.intervals[0].method


def test_nonsense_is_refused():
    with pytest.raises(InputError, match="n_clusters"):
        cluster_bootstrap(lambda at: 0.0, 0, 10, seed=0)
