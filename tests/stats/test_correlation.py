import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakscope.errors import InputError
from leakscope.stats.correlation import (
    coefficient,
    compare_predictors,
    kendall_tau,
    midranks,
    partial_correlation,
    pearson,
    spearman,
)


@given(st.integers(0, 10_000), st.integers(3, 40), st.integers(2, 30))
def test_agrees_with_scipy(seed, n, n_levels):
    x, y = np.random.default_rng(seed).integers(0, n_levels, (2, n)).astype(float)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(pearson(x, y).r)
        return
    for ours, theirs in ((pearson(x, y), stats.pearsonr(x, y)), (spearman(x, y), stats.spearmanr(x, y))):
        assert ours.r == pytest.approx(theirs.statistic, abs=1e-12)
        assert ours.p == pytest.approx(theirs.pvalue, abs=1e-6)
        assert ours.n == n


@given(st.lists(st.sampled_from([0.0, 1.0, 2.5, -3.0]), max_size=30))
def test_midranks_agree_with_scipy(values):
    np.testing.assert_array_equal(midranks(np.array(values)), stats.rankdata(values))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, -1e-300])
@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_a_constant_gives_nan_and_the_reason(correlate, value):
    found = correlate(np.full(7, value), np.arange(7.0))
    assert np.isnan(found.r)
    assert np.isnan(found.p)
    assert np.isnan(found.interval.low)
    assert found.reason == "x is constant"


def test_rounding_is_not_a_signal():
    almost = 1e6 + np.array([0, 1, 0, 1, 0, 1]) * 1e-10
    assert np.isnan(pearson(almost, np.array([0, 1, 0, 1, 0, 1.0])).r)


def test_size_does_not_overflow():
    x = np.array([1.0, 2.0, 4.0, 3.0]) * 1e200
    assert pearson(x, x * 1e50).r == pytest.approx(1)
    assert pearson(x, -x).r == pytest.approx(-1)


def test_too_few_points_or_bad_ones():
    assert "too few" in pearson([1.0, 2.0], [2.0, 1.0]).reason
    assert "too few" in pearson([], []).reason
    with pytest.raises(InputError, match="1 of 3 points"):
        pearson([1.0, np.nan, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="one length"):
        spearman([1.0, 2.0], [1.0])


def test_partial_correlation_has_its_closed_form():
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal((3, 50))
    x, y = x + z, y + z
    r_xy, r_xz, r_yz = pearson(x, y).r, pearson(x, z).r, pearson(y, z).r
    expected = (r_xy - r_xz * r_yz) / np.sqrt((1 - r_xz**2) * (1 - r_yz**2))
    found = partial_correlation(x, y, z)
    assert found.r == pytest.approx(expected)
    degrees = 50 - 3
    t = abs(expected) * np.sqrt(degrees / (1 - expected**2))
    assert found.p == pytest.approx(2 * stats.t.sf(t, degrees))
    assert partial_correlation(x, y, z, rank=True).r == pytest.approx(
        partial_correlation(stats.rankdata(x), stats.rankdata(y), stats.rankdata(z)).r
    )


def test_holding_the_common_cause_fixed_removes_the_correlation():
    rng = np.random.default_rng(0)
    cause = rng.standard_normal(2000)
    x, y = cause + rng.standard_normal((2, 2000))
    assert pearson(x, y).interval.low > 0.4
    assert 0.0 in partial_correlation(x, y, cause).interval


def test_variables_fixed_by_the_others_give_nan():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 20))
    assert "constant once the others" in partial_correlation(2 * y + 1, x, y).reason
    repeated = partial_correlation(x, y, np.stack([x + y, x + y], axis=1))
    assert repeated.r == pytest.approx(partial_correlation(x, y, x + y).r)
    assert partial_correlation(x, y, np.ones(20)).r == pytest.approx(pearson(x, y).r)


def test_fisher_intervals_cover():
    rng = np.random.default_rng(0)
    truth = 0.6
    covered = {pearson: 0, spearman: 0}
    true_rank = 6 / np.pi * np.arcsin(truth / 2)
    for _ in range(400):
        x, noise = rng.standard_normal((2, 40))
        y = truth * x + np.sqrt(1 - truth**2) * noise
        covered[pearson] += truth in pearson(x, y).interval
        covered[spearman] += true_rank in spearman(x, y).interval
    assert all(0.92 <= n / 400 <= 0.98 for n in covered.values())


def test_the_better_predictor_wins_and_equal_ones_do_not():
    rng = np.random.default_rng(0)
    log_parameters = np.linspace(2, 6, 20)
    gap = np.sin(log_parameters * 2) + 0.1 * rng.standard_normal((30, 20))
    leakage = gap + 0.2 * rng.standard_normal((30, 20))
    found = compare_predictors(leakage, gap, log_parameters, seed=0, n_draws=200)
    assert found.estimate[0] > 0.95
    assert found.intervals[2].low > 0
    same = compare_predictors(leakage, gap, gap, seed=0, n_draws=50)
    np.testing.assert_array_equal(same.draws[:, 2], 0)


def test_kendalls_tau_is_scipys_with_and_without_ties():
    rng = np.random.default_rng(0)
    for n in (3, 5, 22):
        x, y = rng.standard_normal((2, n))
        assert kendall_tau(x, y) == pytest.approx(stats.kendalltau(x, y).statistic)
        x, y = np.round(x), np.round(y)
        expected = stats.kendalltau(x, y).statistic
        assert kendall_tau(x, y) == pytest.approx(expected, nan_ok=True)
    assert np.isnan(kendall_tau(np.ones(4), np.arange(4.0)))


def test_one_coefficient_is_that_of_the_whole_correlation():
    x, y = np.random.default_rng(1).standard_normal((2, 12))
    assert coefficient(x, y, "pearson") == pytest.approx(pearson(x, y).r)
    assert coefficient(x, y, "spearman") == pytest.approx(spearman(x, y).r)
    assert np.isnan(coefficient(x, np.ones(12), "pearson"))


def test_ranks_can_favor_what_values_do_not():
    """A curve that bends: its order follows the second predictor perfectly, its values the first."""
    size = np.linspace(1, 10, 20)
    gap = np.minimum(size, 5) + np.where(np.arange(20) % 2, 0.01, -0.01)
    leakage = np.minimum(size, 5) + 0.001 * size
    noise = 1e-4 * np.random.default_rng(0).standard_normal((30, 20))
    by = {name: compare_predictors(leakage + 0 * noise, gap + noise, size, seed=0, n_draws=100, by=name)
          for name in ("pearson", "spearman", "kendall")}  # fmt: skip
    assert by["pearson"].intervals[2].low > 0
    assert by["spearman"].intervals[2].high < 0 and by["kendall"].intervals[2].high < 0


def test_equal_means_share_a_rank_whatever_the_order_of_their_sums():
    """0.5 + gap / 2 orders settings exactly as the gap does, also those whose gaps have the same mean."""
    gaps = np.array([[0.1, 0.3, 0.2], [0.2, 0.1, 0.3], [0.3, 0.2, 0.1]]).T  # every setting has the mean 0.2
    gaps = np.concatenate([gaps, gaps + 0.1], axis=1)
    assert len(set(gaps.mean(axis=0))) > 2  # in the last digits
    for by in ("spearman", "kendall"):
        found = compare_predictors(0.5 + gaps / 2, gaps, np.arange(6.0), seed=0, n_draws=50, by=by)
        np.testing.assert_allclose(found.draws[:, 0][np.isfinite(found.draws[:, 0])], 1)
        expected = (stats.spearmanr if by == "spearman" else stats.kendalltau)(
            [0] * 3 + [1] * 3, np.arange(6)
        )
        assert found.estimate[1] == pytest.approx(expected.statistic)
