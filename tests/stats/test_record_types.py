"""The prior over records: closed forms, a naive reference, and a planted prior that must be found."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from leakscope.stats.record_types import (
    RecordTypes,
    _by_counts,
    _improved,
    _normalized_beside,
    _start,
    fit_beside,
    fit_each,
    fit_record_types,
    log_marginal,
)
from leakscope.stats.side_sums import resolution_variance, side_sums, usual_gap

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


def in_sets(types):
    """As the types of one set of records among several."""
    return RecordTypes(*(part[None] for part in vars(types).values()))


def naive_round(types, values, in_mask, smallest):
    """One round of expectation-maximization, record by record and type by type, from its definition."""
    n_types, n_records = len(types.weight), values.shape[1]
    log_p, expected = np.empty((n_records, n_types)), np.empty((n_records, n_types, 2))
    uncertain = np.empty((n_records, n_types, 2, 2))
    for i in range(n_records):
        counts = np.array([in_mask[:, i].sum(), (~in_mask[:, i]).sum()])
        sums = np.array([values[in_mask[:, i], i].sum(), values[~in_mask[:, i], i].sum()])
        for k in range(n_types):
            alone = RecordTypes(*(part[k : k + 1] for part in vars(types).values()))
            log_p[i, k] = naive_log_marginal(alone, values[:, i], in_mask[:, i])
            in_variance, out_variance, cross = types.covariance[k]
            prior = np.linalg.inv([[in_variance, cross], [cross, out_variance]])
            uncertain[i, k] = np.linalg.inv(prior + np.diag(counts / types.noise[k]))
            expected[i, k] = uncertain[i, k] @ (prior @ types.mean[k] + sums / types.noise[k])
    shares = np.exp(log_p - logsumexp(log_p, axis=1)[:, None])
    size = shares.sum(axis=0)
    mean = np.einsum("ik,iks->ks", shares, expected) / size[:, None]
    off = expected - mean
    spread = np.einsum("ik,iks,ikt->kst", shares, off, off) + np.einsum("ik,ikst->kst", shares, uncertain)
    noise = np.empty((n_types, 2))
    for side, mask in enumerate((in_mask, ~in_mask)):
        squares = (values[:, :, None] - expected[..., side]) ** 2 + uncertain[..., side, side]
        noise[:, side] = np.einsum("mi,ik,mik->k", mask, shares, squares) / (mask.sum(axis=0) @ shares)
    covariance = (spread / size[:, None, None])[:, [0, 1, 0], [0, 1, 1]] + [smallest, smallest, 0.0]
    return RecordTypes((size + 1) / (size + 1).sum(), mean, covariance, np.maximum(noise, smallest))


def test_a_round_is_that_of_the_definition():
    """Records of many different counts, some without a value on a side."""
    values, in_mask = some_values(n_models=4, n_records=60, seed=5)
    in_mask[:, :3], in_mask[:, 3:6] = True, False
    found, _ = _improved(in_sets(TYPES), _by_counts([side_sums(values, in_mask)]), np.array([0.01]))
    expected = naive_round(TYPES, values, in_mask, smallest=0.01)
    for ours, naive in zip(vars(found).values(), vars(expected).values(), strict=True):
        np.testing.assert_allclose(ours[0], naive, rtol=1e-10)


def test_every_round_makes_the_values_more_likely():
    values, in_mask = some_values(n_models=8, n_records=300)
    sums = side_sums(values * np.linspace(0.5, 3, 300), in_mask)
    types, records, reached = in_sets(_start(sums, 3, usual_gap(sums))), _by_counts([sums]), []
    for _ in range(15):
        types, log_likelihood = _improved(types, records, np.zeros(1))
        reached.append(log_likelihood[0])
    # The pseudo-record that keeps weights above zero costs a hair.
    assert (np.diff(reached) > -1e-6).all()
    assert reached[-1] > reached[0] + 0.01


def test_sets_fitted_together_are_those_fitted_alone():
    """They differ in rounds, counts, floors and number of records."""
    floors, sets = (0.0, 0.5, 0.0, 0.01), []
    for at, n_records in enumerate((40, 300, 60, 90)):
        values, in_mask = some_values(n_models=4 + at, n_records=n_records, seed=at)
        sets.append(side_sums(values * np.linspace(0.5, 1 + 3 * at, n_records), in_mask))
    together = fit_each(sets, 3, floors)
    for found, sums, floor in zip(together, sets, floors, strict=True):
        alone = fit_record_types(sums, 3, floor)
        for ours, expected in zip(vars(found).values(), vars(alone).values(), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-9)


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


def test_a_planted_prior_is_found_from_one_model_beside_one_of_unknown_memberships():
    """One value per record cannot part the two variances; a second one can, whichever side it is from."""
    rng = np.random.default_rng(0)
    n = 6000
    means = rng.multivariate_normal([4.0, 1.0], [[1.0, 0.6], [0.6, 2.0]], size=n)
    in_mask = rng.random((2, n)) < np.array([[0.5], [0.3]])
    values = np.where(in_mask, means[:, 0] + 0.7 * rng.normal(size=(2, n)), 0)
    values = np.where(in_mask, values, means[:, 1] + 1.4 * rng.normal(size=(2, n)))
    sums = side_sums(values[:1], in_mask[:1])
    alone, beside = fit_record_types(sums, 1), fit_beside(values[1], sums, 1, 0.0)
    assert alone.noise[0, 1] < 0.5  # of 1.96
    np.testing.assert_allclose(beside.mean[0], [4.0, 1.0], atol=0.1)
    np.testing.assert_allclose(beside.covariance[0], [1.0, 2.0, 0.6], rtol=0.2)
    np.testing.assert_allclose(beside.noise[0], [0.7**2, 1.4**2], rtol=0.2)


def test_a_record_of_unknown_side_counts_on_both_as_much_as_they_are_likely():
    rng = np.random.default_rng(0)
    n, share = 7, 0.3
    log_p, order = rng.normal(size=(2, 2 * n)), rng.permutation(2 * n)
    expected, total, of_in = np.empty_like(log_p), 0.0, 0.0
    for record in range(n):
        columns = [np.flatnonzero(order == record)[0], np.flatnonzero(order == n + record)[0]]
        p = np.exp(log_p[:, columns]) * [share, 1 - share]
        expected[:, columns] = p / p.sum()
        total, of_in = total + np.log(p.sum()) / n, of_in + p[:, 0].sum() / p.sum() / n
    found = _normalized_beside(log_p, order, share)
    assert found == pytest.approx((total, of_in))
    np.testing.assert_allclose(log_p, expected)


@pytest.mark.parametrize("values", [np.zeros((4, 30)), np.tile(np.arange(30.0), (4, 1))])
def test_values_without_any_spread_give_finite_answers(values):
    in_mask = np.random.default_rng(0).random(values.shape) < 0.5
    sums = side_sums(values, in_mask)
    assert np.isfinite(log_marginal(fit_record_types(sums), sums)).all()
    assert np.isfinite(log_marginal(fit_beside(values[0], sums, 6, 0.0), sums)).all()


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
