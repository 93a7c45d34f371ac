import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.stats.epsilon import epsilon_from_rates, epsilon_of_split
from leakscope.stats.intervals import clopper_pearson_bounds
from leakscope.stats.roc import split_scores

N_THRESHOLDS = [4, 7, 16]


def epsilon_lower_bound(scores, is_member, **options):
    return epsilon_of_split(split_scores(scores, is_member), **options)


def uncorrected_argmax(scores, is_member):
    """A known fault: the rates' ratio at every threshold, keep the largest."""
    thresholds = np.unique(scores)[:, None]
    n_true = (scores[is_member] >= thresholds).sum(axis=1)
    n_false = (scores[~is_member] >= thresholds).sum(axis=1)
    usable = (n_true > 0) & (n_false > 0)
    return epsilon_from_rates(n_true[usable] / n_true[0], n_false[usable] / n_false[0], 1e-5).max()


def randomised_response(n, epsilon, rng):
    """Says the truth with probability e^eps / (1 + e^eps): exactly epsilon-private."""
    is_member = np.arange(2 * n) < n
    lies = rng.random(2 * n) > 1 / (1 + np.exp(-epsilon))
    return (is_member ^ lies).astype(float), is_member


def test_the_formula_by_hand():
    assert epsilon_from_rates(0.5, 0.1, 0.0) == pytest.approx(np.log(5))
    assert epsilon_from_rates(0.9, 0.5, 0.1) == pytest.approx(np.log(0.4 / 0.1))
    assert epsilon_from_rates(0.1, 0.5, 0.0) == 0
    assert epsilon_from_rates(0.0, 0.0, 0.0) == 0
    assert epsilon_from_rates(0.5, 0.0, 0.0) == np.inf


@pytest.mark.parametrize("n_thresholds", N_THRESHOLDS)
def test_no_leakage_gives_no_epsilon(n_thresholds):
    rng = np.random.default_rng(0)
    is_member = np.arange(600) < 300
    found = [
        epsilon_lower_bound(rng.standard_normal(600), is_member, n_thresholds=n_thresholds).epsilon
        for _ in range(200)
    ]
    assert np.mean(np.array(found) > 0) <= 0.05


def test_maximising_without_correction_would_be_caught():
    rng = np.random.default_rng(0)
    is_member = np.arange(600) < 300
    found = [uncorrected_argmax(rng.standard_normal(600), is_member) for _ in range(40)]
    assert np.mean(np.array(found) > 0.5) > 0.5


@pytest.mark.parametrize("n_thresholds", N_THRESHOLDS)
def test_the_bound_holds_where_it_is_tight(n_thresholds):
    # Randomised response meets the trade-off at its only threshold, so nothing hides an invalid bound.
    rng = np.random.default_rng(1)
    found = [
        epsilon_lower_bound(*randomised_response(400, 1.0, rng), n_thresholds=n_thresholds, delta=0.0)
        for _ in range(200)
    ]
    epsilons = np.array([bound.epsilon for bound in found])
    assert np.mean(epsilons > 1.0) <= 0.05
    assert np.median(epsilons) > 0.4


@pytest.mark.parametrize("n_thresholds", [2, 16])
def test_bonferroni_divides_the_error_by_the_thresholds(n_thresholds):
    # Perfect separation has a closed form: the smallest rank wins, with every member above it.
    rank = int(50 ** (0.5 / (n_thresholds // 2)))
    bounds = clopper_pearson_bounds([100, rank], 100, 1 - 0.05 / n_thresholds)
    expected = epsilon_from_rates(bounds.low[0], bounds.high[1], 1e-5)
    found = epsilon_lower_bound(np.arange(200.0), np.arange(200) >= 100, n_thresholds=n_thresholds)
    assert found.epsilon == pytest.approx(float(expected))


def test_a_gaussian_shift_lands_where_valid_bounds_do():
    is_member = np.arange(10_000) < 5000
    scores = np.random.default_rng(0).standard_normal(10_000) + is_member
    assert 1.4 < epsilon_lower_bound(scores, is_member).epsilon < 2.4


@pytest.mark.parametrize("n_thresholds", N_THRESHOLDS)
def test_both_directions_are_found(n_thresholds):
    # A record below -5 is certainly no member: only the second direction can see that.
    rng = np.random.default_rng(0)
    is_member = np.arange(4000) < 2000
    scores = rng.standard_normal(4000)
    scores[2000:2400] -= 10
    for values, labels in ((scores, is_member), (-scores, ~is_member)):
        assert epsilon_lower_bound(values, labels, n_thresholds=n_thresholds).epsilon > 2.5


def test_more_confidence_claims_less():
    is_member = np.arange(2000) < 1000
    scores = np.random.default_rng(0).standard_normal(2000) + 2 * is_member
    bounds = [epsilon_lower_bound(scores, is_member, confidence=c).epsilon for c in (0.8, 0.95, 0.999)]
    assert bounds[0] > bounds[1] > bounds[2] > 0
    assert epsilon_lower_bound(scores, is_member, delta=0.5).epsilon < bounds[1]


def test_infinite_scores_and_ties_are_fine():
    scores = np.array([np.inf, -np.inf] * 300)
    is_member = np.arange(600) % 2 == 0
    for n_thresholds in N_THRESHOLDS:
        assert epsilon_lower_bound(scores, is_member, n_thresholds=n_thresholds).epsilon > 2.5
        assert epsilon_lower_bound(np.ones(600), is_member, n_thresholds=n_thresholds).epsilon == 0


def test_a_missing_side_is_undefined_with_a_reason():
    found = epsilon_lower_bound(np.ones(5), np.ones(5, bool))
    assert np.isnan(found.epsilon)
    assert "0 non-members" in found.reason


def test_nonsense_is_refused():
    with pytest.raises(InputError, match="n_thresholds"):
        epsilon_lower_bound(np.ones(2), np.array([True, False]), n_thresholds=1)
    with pytest.raises(InputError, match="delta"):
        epsilon_lower_bound(np.ones(2), np.array([True, False]), delta=1.0)
