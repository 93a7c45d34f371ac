"""The prior over records: closed forms, a naive reference, and a planted prior that must be found."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from leakscope.stats.record_types import (
    RecordTypes,
    _improved,
    _start,
    fit_record_types,
    log_marginal,
    resolution_variance,
    side_sums,
)

TYPES = RecordTypes(
    weight=np.array([0.3, 0.7]),
    mean=np.array([[1.0, -1.0], [0.5, 0.4]]),
    covariance=np.array([[0.8, 1.5, 0.6], [0.2, 0.3, -0.1]]),
    noise=np.array([[0.4, 0.9], [0.1, 0.2]]),
)


def some_values(n_models=5, n_records=100, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_models, n_records)), rng.random((n_models, n_records)) < 0.5


def naive_log_marginal(types, values, is_in):
    """One record's values are jointly Gaussian given its type."""
    log_p = []
    for weight, mean, (v_in, v_out, cross), noise in zip(
        types.weight, types.mean, types.covariance, types.noise, strict=True
    ):
        side = np.where(is_in, 0, 1)
        between = np.array([[v_in, cross], [cross, v_out]])[np.ix_(side, side)]
        joint = multivariate_normal(mean[side], between + np.diag(noise[side]))
        log_p.append(np.log(weight) + joint.logpdf(values))
    return logsumexp(log_p) + len(values) / 2 * np.log(2 * np.pi)


def test_log_marginal_is_the_density_of_all_values_together():
    values, in_mask = some_values()
    assert {0, 5} <= set(in_mask.sum(axis=0))  # records with nothing on one side are among them
    found = log_marginal(TYPES, side_sums(values, in_mask))
    expected = [naive_log_marginal(TYPES, values[:, i], in_mask[:, i]) for i in range(values.shape[1])]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_moving_a_value_is_summing_with_it_on_the_other_side():
    values, in_mask = some_values()
    other = in_mask.copy()
    other[2] = ~other[2]
    across = np.where(other[2], 1.0, -1.0)
    moved = side_sums(values, in_mask).added(values[2], across, -across)
    for found, expected in zip(moved, side_sums(values, other), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_every_round_makes_the_values_more_likely():
    values, in_mask = some_values(n_models=8, n_records=300)
    sums = side_sums(values * np.linspace(0.5, 3, 300), in_mask)
    types, reached = _start(sums, 3), []
    for _ in range(15):
        types, log_likelihood = _improved(types, sums, smallest=0.0)
        reached.append(log_likelihood)
    # The pseudo-record that keeps weights above zero costs a hair.
    assert (np.diff(reached) > -1e-6).all()
    assert reached[-1] > reached[0] + 0.01


def test_a_planted_prior_is_found():
    rng = np.random.default_rng(3)
    n = 6000
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    means = rng.multivariate_normal([4.0, 1.0], covariance, size=n)
    in_mask = rng.random((12, n)) < 0.5
    noise = np.where(in_mask, 0.7, 1.4)
    values = np.where(in_mask, means[:, 0], means[:, 1]) + noise * rng.normal(size=in_mask.shape)
    fitted = fit_record_types(side_sums(values, in_mask), n_types=1)
    np.testing.assert_allclose(fitted.mean[0], [4.0, 1.0], atol=0.08)
    np.testing.assert_allclose(fitted.covariance[0], [1.0, 2.0, 0.6], rtol=0.1)
    np.testing.assert_allclose(fitted.noise[0], [0.7**2, 1.4**2], rtol=0.05)


@pytest.mark.parametrize("values", [np.zeros((4, 30)), np.tile(np.arange(30.0), (4, 1))])
def test_values_without_any_spread_give_finite_answers(values):
    in_mask = np.random.default_rng(0).random(values.shape) < 0.5
    sums = side_sums(values, in_mask)
    assert np.isfinite(log_marginal(fit_record_types(sums), sums)).all()


def test_resolution_is_zero_without_ties_and_the_step_where_all_tie_or_step():
    rng = np.random.default_rng(0)
    assert resolution_variance(rng.normal(size=(6, 50))) == 0
    assert resolution_variance(np.zeros((6, 50))) == 0
    steps = 0.25 * rng.integers(0, 3, size=(30, 200))
    assert resolution_variance(steps) == pytest.approx(0.25**2, rel=0.15)


def test_no_variance_falls_below_the_resolution():
    values = np.tile(np.repeat([0.0, 1.0], 20), (6, 1))
    in_mask = np.random.default_rng(0).random(values.shape) < 0.5
    fitted = fit_record_types(side_sums(values, in_mask), 2, resolution_variance=0.01)
    assert fitted.noise.min() >= 0.01


def test_a_value_taken_off_is_a_sum_without_its_model():
    values, in_mask = some_values()
    was_in = in_mask[2].astype(float)
    found = side_sums(values, in_mask).added(values[2], -was_in, was_in - 1)
    others = np.arange(len(values)) != 2
    for ours, expected in zip(found, side_sums(values[others], in_mask[others]), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_only_the_models_that_are_used_count():
    values, in_mask = some_values(n_models=9)
    used = np.random.default_rng(0).random(in_mask.shape) < 0.5
    sums = side_sums(values, in_mask, used)
    np.testing.assert_array_equal(sums.n_in, (in_mask & used).sum(axis=0))
    np.testing.assert_allclose(sums.sum_out, np.where(~in_mask & used, values, 0).sum(axis=0))
