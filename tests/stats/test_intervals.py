import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakscope.errors import InputError
from leakscope.stats.intervals import (
    advantage_interval,
    clopper_pearson,
    clopper_pearson_bounds,
    delong,
    fisher_interval,
    mean_over_targets,
    wilson,
)
from leakscope.stats.roc import advantage, auc, roc


def naive_delong_variance(members, nonmembers):
    """The definition: all pairs, variances of row and column means."""
    pairs = (members[:, None] > nonmembers) + 0.5 * (members[:, None] == nonmembers)
    rows, columns = pairs.mean(axis=1), pairs.mean(axis=0)
    return rows.var(ddof=1) / len(members) + columns.var(ddof=1) / len(nonmembers)


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_clopper_pearson_solves_the_binomial_tails(k, extra, level):
    n = k + extra
    found = clopper_pearson(k, n, level)
    tail = (1 - level) / 2
    if k > 0:
        assert stats.binom.sf(k - 1, n, found.low) == pytest.approx(tail, rel=1e-6)
    else:
        assert found.low == 0
    if k < n:
        assert stats.binom.cdf(k, n, found.high) == pytest.approx(tail, rel=1e-6)
    else:
        assert found.high == 1


def test_clopper_pearson_never_covers_too_rarely():
    n, k = 30, np.arange(31)
    low, high = clopper_pearson_bounds(k, n, 0.9)
    for rate in np.linspace(0.01, 0.99, 99):
        covers = (low <= rate) & (rate <= high)
        assert stats.binom.pmf(k, n, rate)[covers].sum() >= 0.9


def test_clopper_pearson_broadcasts_and_refuses_nonsense():
    low, high = clopper_pearson_bounds([[0], [5]], [5, 10, 20])
    assert low.shape == high.shape == (2, 3)
    assert clopper_pearson(0, 20).high == pytest.approx(1 - 0.025 ** (1 / 20))
    with pytest.raises(InputError, match="successes"):
        clopper_pearson(6, 5)
    with pytest.raises(InputError, match="level"):
        clopper_pearson(1, 5, level=95)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(2, 30), st.integers(2, 20))
def test_delong_equals_the_naive_variance(seed, n_members, n_nonmembers, n_levels):
    rng = np.random.default_rng(seed)
    members, nonmembers = rng.integers(0, n_levels, n_members), rng.integers(0, n_levels, n_nonmembers)
    scores, is_member = np.r_[members, nonmembers], np.arange(n_members + n_nonmembers) < n_members
    found = delong(scores, is_member)
    assert found.standard_error**2 == pytest.approx(naive_delong_variance(members, nonmembers), abs=1e-12)
    assert found.auc == auc(scores, is_member)
    assert 0 <= found.interval.low <= found.auc <= found.interval.high <= 1
    assert found.interval.low < found.interval.high


@pytest.mark.parametrize(("shift", "n"), [(0.0, 40), (1.0, 40), (2.0, 60)])
def test_delong_covers_the_true_auc(shift, n):
    true_auc = stats.norm.cdf(shift / np.sqrt(2))
    rng = np.random.default_rng(3)
    is_member = np.arange(2 * n) < n
    n_covered = sum(
        true_auc in delong(rng.standard_normal(2 * n) + shift * is_member, is_member).interval
        for _ in range(600)
    )
    assert 0.92 <= n_covered / 600 <= 0.98


@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_auc_still_has_an_interval(sign):
    is_member = np.arange(60) < 40
    found = delong(sign * is_member.astype(float), is_member)
    assert found.auc == (sign + 1) / 2
    width = 1 - 0.025 ** (1 / 20)
    assert found.interval.high - found.interval.low == pytest.approx(width)
    assert "disjoint pairs" in found.interval.method


def test_a_single_member_gives_no_information():
    found = delong(np.array([3.0, 1.0, 2.0]), np.array([True, False, False]))
    assert (found.interval.low, found.interval.high) == (0, 1)
    assert "fewer than 2" in found.interval.method
    assert np.isnan(found.standard_error)


def test_advantage_interval_allows_for_the_chosen_threshold():
    # The largest TPR - FPR is biased upwards: with no leakage it is still above 0.
    rng = np.random.default_rng(0)
    is_member = np.arange(200) < 100
    covered = []
    for shift in [0.0] * 100 + [1.0] * 100:
        found = advantage(roc(rng.standard_normal(200) + shift * is_member, is_member))
        true_advantage = 2 * stats.norm.cdf(shift / 2) - 1
        covered.append(true_advantage in advantage_interval(found, 100, 100))
    assert np.mean(covered) >= 0.95
    assert advantage_interval(0.3, 10**6, 10**6).low > 0.29


def test_mean_over_targets_has_the_t_interval():
    values = np.array([0.6, 0.7, 0.65, 0.72])
    found = mean_over_targets(values)
    expected = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (found.interval.low, found.interval.high) == pytest.approx(expected)


def test_mean_over_targets_leaves_out_undefined_ones():
    found = mean_over_targets([0.6, np.nan, 0.7])
    assert found.mean == pytest.approx(0.65)
    assert found.interval.method == "t over 2 targets"
    alone = mean_over_targets([0.6, np.nan])
    assert alone.mean == 0.6
    assert np.isnan(alone.interval.low)
    assert "1 of 2" in alone.interval.method
    assert np.isnan(mean_over_targets([np.nan]).mean)
    with pytest.raises(InputError, match="infinite"):
        mean_over_targets([1.0, np.inf])


def test_fisher_interval_matches_scipy_and_its_edges():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30)
    y = x + rng.standard_normal(30)
    expected = stats.pearsonr(x, y).confidence_interval(0.9)
    found = fisher_interval(stats.pearsonr(x, y).statistic, 30, 0.9)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert fisher_interval(0.6, 30, rank=True).low < fisher_interval(0.6, 30).low
    assert fisher_interval(0.6, 30, n_given=5).low == fisher_interval(0.6, 25).low
    assert (fisher_interval(0.9, 3).low, fisher_interval(0.9, 3).high) == (-1, 1)
    assert fisher_interval(1.0, 10).low == 1
    assert np.isnan(fisher_interval(float("nan"), 10).low)


@pytest.mark.parametrize("rate", [0.0005, 0.9995])
def test_a_rate_of_a_fraction_of_a_record_is_known_as_well_as_that_of_one(rate: float) -> None:
    """The threshold between two scores calls a part of the next member: no reason to know next to nothing."""
    low, high = wilson(rate, 0.02, 2.58)
    assert high - low < 0.15
    one = wilson(0.02, 0.02, 2.58)
    assert high - low < one[1] - one[0]
