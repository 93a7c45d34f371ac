import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from sklearn import metrics

from leakscope.errors import InputError
from leakscope.stats.roc import (
    advantage,
    auc,
    operating_point,
    precision_at_prior,
    roc,
    why_unresolvable,
)

# Few distinct values, so that ties are everywhere.
tied_scores = st.lists(
    st.tuples(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, np.inf]), st.booleans()),
    min_size=2,
    max_size=40,
).filter(lambda rows: len({is_member for _, is_member in rows}) == 2)


def unzip(rows):
    scores, is_member = zip(*rows, strict=True)
    return np.array(scores), np.array(is_member)


def naive_auc(scores, is_member):
    """Every pair, one after the other."""
    pairs = [(m, n) for m in scores[is_member] for n in scores[~is_member]]
    return sum(1.0 if m > n else 0.5 if m == n else 0.0 for m, n in pairs) / len(pairs)


def naive_rates(scores, is_member):
    """(fpr, tpr) of every threshold that can matter, by its definition."""
    calls = [scores >= t for t in np.unique(scores)] + [np.zeros(len(scores), bool)]
    return [(call[~is_member].mean(), call[is_member].mean()) for call in calls]


def normal_shift(n, shift, seed=0):
    is_member = np.arange(2 * n) < n
    return np.random.default_rng(seed).standard_normal(2 * n) + shift * is_member, is_member


@given(tied_scores)
def test_auc_is_the_share_of_ordered_pairs(rows):
    scores, is_member = unzip(rows)
    assert auc(scores, is_member) == pytest.approx(naive_auc(scores, is_member), abs=1e-12)


@given(tied_scores)
def test_the_curve_has_one_point_for_each_distinct_score(rows):
    scores, is_member = unzip(rows)
    curve = roc(scores, is_member)
    found = list(zip(curve.fpr, curve.tpr, strict=True))
    assert len(found) == len(np.unique(scores)) + 1
    assert found[0] == (0, 0)
    assert found[-1] == (1, 1)
    np.testing.assert_allclose(sorted(found), sorted(naive_rates(scores, is_member)), atol=1e-12)


@given(tied_scores)
def test_every_threshold_reaches_its_rates(rows):
    scores, is_member = unzip(rows)
    curve = roc(scores, is_member)
    for fpr, tpr, threshold in zip(curve.fpr, curve.tpr, curve.thresholds, strict=True):
        assert (scores[~is_member] >= threshold).mean() == pytest.approx(fpr)
        assert (scores[is_member] >= threshold).mean() == pytest.approx(tpr)


@given(tied_scores)
def test_area_under_the_curve_is_the_auc(rows):
    scores, is_member = unzip(rows)
    curve = roc(scores, is_member)
    assert np.trapezoid(curve.tpr, curve.fpr) == pytest.approx(auc(scores, is_member), abs=1e-12)


@given(tied_scores)
def test_negated_scores_have_the_complementary_auc(rows):
    scores, is_member = unzip(rows)
    assert auc(-scores, is_member) == pytest.approx(1 - auc(scores, is_member), abs=1e-12)


@given(tied_scores)
def test_a_rising_map_changes_nothing(rows):
    scores, is_member = unzip(rows)
    mapped = np.arctan(scores) * 3 + 1
    assert auc(mapped, is_member) == auc(scores, is_member)
    np.testing.assert_array_equal(roc(mapped, is_member).tpr, roc(scores, is_member).tpr)
    assert operating_point(roc(mapped, is_member), 0.5).tpr == pytest.approx(
        operating_point(roc(scores, is_member), 0.5).tpr, nan_ok=True
    )


@given(tied_scores, st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert auc(*unzip(shuffled)) == auc(*unzip(rows))


@given(tied_scores, st.sampled_from([0.03, 0.05, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]))
def test_tpr_at_fpr_is_the_best_threshold_within_the_budget(rows, budget):
    scores, is_member = unzip(rows)
    point = operating_point(roc(scores, is_member), budget)
    if budget < 1 / (~is_member).sum():
        assert np.isnan(point.tpr)
        return
    within = [(tpr, -fpr) for fpr, tpr in naive_rates(scores, is_member) if fpr <= budget + 1e-9]
    assert (point.tpr, -point.fpr) == pytest.approx(max(within))
    assert (scores[is_member] >= point.threshold).mean() == pytest.approx(point.tpr)
    assert (scores[~is_member] >= point.threshold).mean() == pytest.approx(point.fpr)


def test_random_ties_give_an_auc_of_one_half():
    # Keeping the first of tied scores gives .43, .41 or .12 here, whatever order the records have.
    rng = np.random.default_rng(1)
    scores, is_member = rng.integers(0, 3, 20_000).astype(float), rng.random(20_000) < 0.5
    assert auc(scores, is_member) == pytest.approx(0.5, abs=0.01)
    members_last = np.argsort(is_member)
    assert auc(scores[members_last], is_member[members_last]) == auc(scores, is_member)


def test_constant_scores_say_nothing():
    is_member = np.arange(100) < 30
    curve = roc(np.ones(100), is_member)
    assert auc(np.ones(100), is_member) == 0.5
    assert list(curve.fpr) == [0, 1]
    assert advantage(curve) == 0
    assert operating_point(curve, 0.99).tpr == 0


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.5])
def test_binormal_closed_forms(shift):
    scores, is_member = normal_shift(200_000, shift)
    curve = roc(scores, is_member)
    assert auc(scores, is_member) == pytest.approx(ndtr(shift / np.sqrt(2)), abs=0.003)
    assert advantage(curve) == pytest.approx(2 * ndtr(shift / 2) - 1, abs=0.005)
    for budget in (0.001, 0.01, 0.1):
        expected = ndtr(shift + ndtri(budget))
        assert operating_point(curve, budget).tpr == pytest.approx(expected, rel=0.1)


def test_nothing_is_interpolated():
    scores = np.array([3.0, 1.0, 1.0, 2.0, 0.0])
    is_member = np.array([True, True, True, False, False])
    assert operating_point(roc(scores, is_member), 0.5).tpr == 1.0
    assert operating_point(roc(np.array([3.0, 2.0, 2.0, 2.0, 0.0]), is_member), 0.6).tpr == 1.0
    assert operating_point(roc(np.array([3.0, 1.0, 1.0, 2.0, 2.0]), is_member), 0.99).tpr == pytest.approx(
        1 / 3
    )


@pytest.mark.parametrize(("budget", "n_false"), [(0.29, 29), (0.07, 7), (0.999, 99), (0.01, 1), (1.0, 100)])
def test_a_budget_counts_the_false_positives_it_names(budget, n_false):
    # 0.29 * 100 is 28.999999999999996 in floating point.
    scores = np.arange(200.0)
    is_member = np.arange(200) % 2 == 0
    assert operating_point(roc(scores, is_member), budget).tpr == n_false / 100


def test_a_rate_below_the_resolution_is_undefined_and_says_why():
    scores, is_member = normal_shift(500, 3.0)
    curve = roc(scores, is_member)
    assert np.isnan(operating_point(curve, 0.001).tpr)
    assert "1/500" in operating_point(curve, 0.001).reason
    assert operating_point(curve, 0.002).tpr > 0.3
    assert why_unresolvable(0.002, 500, 500) == ""
    assert "0 members" in why_unresolvable(0.1, 0, 5)


def test_an_empty_side_is_undefined():
    assert np.isnan(auc(np.ones(3), np.ones(3, bool)))
    curve = roc(np.arange(3.0), np.zeros(3, bool))
    assert np.isnan(curve.tpr).all()
    assert np.isnan(advantage(curve))
    assert np.isnan(operating_point(curve, 0.5).tpr)


def test_nan_scores_are_refused_and_counted():
    with pytest.raises(InputError, match="2 of 4 scores are NaN"):
        auc(np.array([1, np.nan, np.nan, 0]), np.array([True, False, True, False]))


def test_labels_that_are_not_bool_are_refused():
    with pytest.raises(InputError, match="is_member must be bool, got int64"):
        auc(np.ones(2), np.array([1, 0]))
    with pytest.raises(InputError, match="one length"):
        roc(np.ones(3), np.array([True, False]))


def test_a_budget_outside_the_unit_interval_is_refused():
    with pytest.raises(InputError, match="fpr_budget"):
        why_unresolvable(5.0, 10, 10)


def test_inputs_are_left_alone():
    scores, is_member = normal_shift(10, 1.0)
    before = scores.copy()
    roc(scores, is_member)
    np.testing.assert_array_equal(scores, before)


def test_precision_at_a_prior():
    assert precision_at_prior(0.1, 0.001, 0.5) == pytest.approx(0.1 / 0.101)
    np.testing.assert_allclose(
        precision_at_prior(0.1, 0.1, np.array([0.01, 0.1, 0.5])), [0.01, 0.1, 0.5]
    )  # an attack that tells nothing leaves the prior as it was
    assert np.isnan(precision_at_prior(0.0, 0.0, 0.1))


@settings(max_examples=20)
@given(tied_scores)
def test_agrees_with_scikit_learn(rows):
    scores, is_member = unzip(rows)
    scores = np.nan_to_num(scores, posinf=9, neginf=-9)
    curve = roc(scores, is_member)
    fpr, tpr, _ = metrics.roc_curve(is_member, scores, drop_intermediate=False)
    np.testing.assert_allclose(curve.fpr, fpr)
    np.testing.assert_allclose(curve.tpr, tpr)
