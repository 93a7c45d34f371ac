from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakscope.errors import InputError
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.per_record import false_discovery, record_risk


def table(n_true, n_in, n_false, n_out):
    """Decisions and design of one record with these counts; bool (targets, 1) each."""
    in_mask = np.arange(n_in + n_out) < n_in
    says_member = np.r_[np.arange(n_in) < n_true, np.arange(n_out) < n_false]
    return says_member[:, None], in_mask[:, None]


def naive_discoveries(p, q):
    """The definition: the largest k with p_(k) <= k q / m."""
    ascending = np.sort(p)
    within = [k for k in range(1, len(p) + 1) if ascending[k - 1] <= k * q / len(p)]
    return p <= ascending[max(within) - 1] if within else np.zeros(len(p), bool)


@given(st.integers(0, 10_000))
def test_every_record_equals_a_naive_count(seed):
    rng = np.random.default_rng(seed)
    says, in_mask = rng.random((2, 9, 15)) < 0.6
    in_mask[:, :2] = True, False  # records that every model or no model was trained on
    found = record_risk(says, in_mask)
    for i in range(15):
        is_in, is_out = in_mask[:, i], ~in_mask[:, i]
        n_in, n_out = int(is_in.sum()), int(is_out.sum())
        assert (found.column("n_in")[i], found.column("n_out")[i]) == (n_in, n_out)
        if n_in and n_out:
            n_true, n_false = int(says[is_in, i].sum()), int(says[is_out, i].sum())
            exact = clopper_pearson(n_true, n_in)
            assert found.column("tpr_low")[i] == pytest.approx(exact.low)
            assert found.column("tpr_high")[i] == pytest.approx(exact.high)
            assert found.column("advantage")[i] == pytest.approx(n_true / n_in - n_false / n_out)
            expected = stats.fisher_exact([[n_true, n_in - n_true], [n_false, n_out - n_false]], "greater")
            assert found.column("p_value")[i] == pytest.approx(expected.pvalue)
        else:
            assert np.isnan(found.column("p_value")[i])
            assert np.isnan(found.column("advantage_low")[i])
            assert np.isnan(found.column("tpr")[i]) == (n_in == 0)


@pytest.mark.parametrize(("n_in", "n_out"), [(4, 4), (10, 10), (6, 20)])
def test_the_advantage_interval_by_exact_enumeration(n_in, n_out):
    # All outcomes at once, so these are the error rates themselves, not estimates of them.
    outcomes = list(product(range(n_in + 1), range(n_out + 1)))
    columns = [table(k, n_in, m, n_out) for k, m in outcomes]
    found = record_risk(np.hstack([c[0] for c in columns]), np.hstack([c[1] for c in columns]))
    k, m = np.array(outcomes).T
    assert found.column("advantage_low").min() >= -1
    assert found.column("advantage_high").max() <= 1
    for tpr, fpr in product(np.linspace(0.02, 0.98, 25), repeat=2):
        chance = stats.binom.pmf(k, n_in, tpr) * stats.binom.pmf(m, n_out, fpr)
        too_high = chance[found.column("advantage_low") > tpr - fpr].sum()
        too_low = chance[found.column("advantage_high") < tpr - fpr].sum()
        assert too_high + too_low <= 0.085
        if tpr >= fpr:
            assert too_high <= 0.025
        else:
            assert too_low <= 0.025


def test_planted_records_are_found_and_harmless_ones_are_not():
    rng = np.random.default_rng(0)
    in_mask = rng.random((40, 2000)) < 0.5
    chance = np.where(in_mask, 0.5, 0.5)
    chance[:, :50] = np.where(in_mask[:, :50], 0.97, 0.03)
    found = record_risk(rng.random((40, 2000)) < chance, in_mask)
    exposed = false_discovery(found.column("p_value"), q=0.05)
    assert exposed[:50].all()
    assert exposed[50:].sum() <= 5
    assert (found.column("p_value")[50:] < 0.05).sum() > 20  # what a list without correction would print


def test_no_leakage_no_discoveries_in_most_runs():
    rng = np.random.default_rng(0)
    n_runs_with_any = 0
    for _ in range(60):
        in_mask, says = rng.random((2, 20, 300)) < 0.5
        n_runs_with_any += false_discovery(record_risk(says, in_mask).column("p_value"), q=0.05).any()
    assert n_runs_with_any <= 5


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.01, 0.05, 0.2, 0.5]))
def test_false_discovery_equals_its_definition(p_values, q):
    p = np.array(p_values)
    found = false_discovery(p, q)
    q_values = stats.false_discovery_control(p)
    clear = np.abs(q_values - q) > 1e-12
    np.testing.assert_array_equal(found[clear], naive_discoveries(p, q)[clear])
    np.testing.assert_array_equal(found[clear], q_values[clear] <= q)


def test_untested_records_do_not_count():
    found = false_discovery(np.array([0.04, np.nan, np.nan]), q=0.05)
    assert list(found) == [True, False, False]
    assert not false_discovery(np.full(3, np.nan)).any()


def test_nonsense_is_refused():
    mask = np.ones((2, 3), bool)
    with pytest.raises(InputError, match="must be bool"):
        record_risk(np.ones((2, 3)), mask)
    with pytest.raises(InputError, match="targets, records"):
        record_risk(mask, mask[:1])
    with pytest.raises(InputError, match="q must be"):
        false_discovery(np.ones(2), q=5)


@given(st.integers(0, 10_000))
def test_exposed_kinds_are_the_exposed_records(seed):
    rng = np.random.default_rng(seed)
    in_mask = rng.random((12, 200)) < 0.5
    says = np.where(rng.random(200) < 0.3, in_mask, rng.random((12, 200)) < 0.5)
    found = record_risk(says, in_mask)
    np.testing.assert_array_equal(found.exposed(0.05), false_discovery(found.column("p_value"), 0.05))
