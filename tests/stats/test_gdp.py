import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakscope.stats.gdp import gaussian_fit, gaussian_tradeoff_of_split, gdp_delta, gdp_epsilon
from leakscope.stats.roc import split_scores

TRUE_EPSILON = 4.377


def gaussian_tradeoff_epsilon(scores, is_member):
    return gaussian_tradeoff_of_split(split_scores(scores, is_member))


def shifted(draw, n, shift):
    is_member = np.arange(2 * n) < n
    return draw(size=2 * n) + shift * is_member, is_member


@given(st.floats(0.05, 20), st.floats(1e-9, 0.01))
def test_the_conversion_inverts_delta(mu, delta):
    assert gdp_delta(mu, gdp_epsilon(mu, delta)) == pytest.approx(delta, rel=1e-6)


def test_known_conversions():
    assert gdp_epsilon(1.0, 1e-5) == pytest.approx(TRUE_EPSILON, abs=0.001)
    assert gdp_epsilon(1.0, 2 * stats.norm.cdf(0.5) - 1) == pytest.approx(0, abs=1e-9)
    assert gdp_epsilon(1.0, 0.5) == 0
    assert gdp_epsilon(0.0, 1e-5) == gdp_epsilon(-1.0, 1e-5) == 0
    assert gdp_epsilon(1.0, 0.0) == gdp_epsilon(np.inf, 1e-5) == np.inf


def test_delta_is_the_largest_excess_over_all_thresholds():
    # The definition: sup over thresholds of TPR - e^eps FPR.
    thresholds = np.linspace(-10, 10, 200_001)
    for epsilon in (0.0, 1.0, 3.0):
        excess = stats.norm.sf(thresholds - 1) - np.exp(epsilon) * stats.norm.sf(thresholds)
        assert gdp_delta(1.0, epsilon) == pytest.approx(excess.max(), rel=1e-6)


def test_a_gaussian_shift_is_nearly_found_and_rarely_overstated():
    rng = np.random.default_rng(0)
    found = np.array(
        [gaussian_tradeoff_epsilon(*shifted(rng.standard_normal, 5000, 1.0)).epsilon for _ in range(300)]
    )
    assert np.isnan(found).mean() < 0.1
    assert 3.9 < np.nanmedian(found) < TRUE_EPSILON
    assert np.mean(found > TRUE_EPSILON) <= 0.05


def test_a_monotone_map_changes_nothing():
    scores, is_member = shifted(np.random.default_rng(0).standard_normal, 3000, 1.5)
    plain = gaussian_tradeoff_epsilon(scores, is_member)
    assert plain.epsilon > 5
    assert gaussian_tradeoff_epsilon(np.exp(scores), is_member).epsilon == plain.epsilon


def test_no_leakage_gives_no_epsilon():
    rng = np.random.default_rng(0)
    found = [gaussian_tradeoff_epsilon(*shifted(rng.standard_normal, 1000, 0.0)).epsilon for _ in range(100)]
    assert np.mean(np.array(found) > 0) <= 0.05
    assert np.mean(np.array(found) == 0) > 0.9


@pytest.mark.parametrize("name", ["logistic", "laplace"])
@pytest.mark.parametrize("shift", [0.3, 1.0, 2.0])
def test_a_bounded_epsilon_is_not_overstated(name, shift):
    # A logistic or Laplace shift leaks exactly `shift`; a Gaussian reading would claim 2 to 4 times that.
    rng = np.random.default_rng(0)
    found = [gaussian_tradeoff_epsilon(*shifted(getattr(rng, name), 3000, shift)) for _ in range(40)]
    assert np.mean([bound.epsilon > shift for bound in found]) <= 0.1
    assert all(bound.reason for bound in found if np.isnan(bound.epsilon))


def test_other_shapes_are_refused():
    rng = np.random.default_rng(0)
    is_member = np.arange(6000) < 3000
    wider = rng.standard_normal(6000) * np.where(is_member, 1.3, 1.0) + is_member
    some = rng.standard_normal(6000) + 3 * (is_member & (rng.random(6000) < 0.2))
    for scores in (wider, some):
        found = gaussian_tradeoff_epsilon(scores, is_member)
        assert np.isnan(found.epsilon)
        assert "not Gaussian" in found.reason


def test_what_cannot_be_tested_is_refused():
    rng = np.random.default_rng(0)
    cases = {
        "takes 500 of each": shifted(rng.standard_normal, 100, 2.0),
        "power": shifted(rng.standard_normal, 2000, 0.3),
        "too few distinct": (np.round(shifted(rng.standard_normal, 1000, 1.0)[0]), np.arange(2000) < 1000),
        "too few distinct scores": shifted(rng.random, 1000, 5.0),
        "2 members and 2 non-members": (np.ones(2), np.ones(2, bool)),
    }
    for words, (scores, is_member) in cases.items():
        found = gaussian_tradeoff_epsilon(scores, is_member)
        assert np.isnan(found.epsilon), words
        assert words in found.reason


def test_the_shape_test_has_its_size():
    rng = np.random.default_rng(0)
    fits = [gaussian_fit(split_scores(*shifted(rng.standard_normal, 3000, 1.0))) for _ in range(200)]
    assert 0.01 <= np.mean([fit.p_value < 0.05 for fit in fits]) <= 0.1
