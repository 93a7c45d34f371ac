import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from leakscope.attacks.lira import Lira
from leakscope.attacks.moments import left_out_moments
from leakscope.types import Design, Signals


def signals_from(log_odds):
    return Signals(
        {"log_odds": np.asarray(log_odds)[:, None]}, (1,), np.zeros(len(log_odds[0]), dtype=np.int64)
    )


def scored(log_odds, in_mask, variance="fixed", targets=None):
    return Lira(variance=variance)(signals_from(log_odds), Design(np.asarray(in_mask)), targets).values


def others_on(in_mask, target, column, is_in):
    """The models other than the target with this record in, or out."""
    return [m for m in range(len(in_mask)) if m != target and in_mask[m, column] == is_in]


def naive_moments(values, mask, targets):
    """One (target, record) after the other: O(M^2 N)."""
    n, mean, variance = (np.full((len(targets), values.shape[1]), np.nan) for _ in range(3))
    for row, target in enumerate(targets):
        for i in range(values.shape[1]):
            models = others_on(mask, target, i, True)
            n[row, i] = len(models)
            if models:
                mean[row, i], variance[row, i] = values[models, i].mean(), values[models, i].var()
    return n, mean, variance


banks = st.tuples(st.integers(2, 9), st.integers(1, 12), st.integers(0, 10**6)).map(
    lambda size: (
        np.random.default_rng(size[2]).normal(3, 2, size[:2]),
        np.random.default_rng([size[2], 1]).random(size[:2]) < 0.5,
    )
)


@given(banks)
def test_left_out_moments_are_those_of_an_explicit_loop(bank):
    values, mask = bank
    moments = left_out_moments(values, mask, np.arange(len(values)))
    n, mean, variance = naive_moments(values, mask, range(len(values)))
    np.testing.assert_array_equal(moments.n, n)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-7, atol=1e-9)


def test_moments_lose_no_digits_far_from_zero():
    values = np.random.default_rng(0).normal(1e7, 1, (12, 5))
    mask = np.random.default_rng(1).random((12, 5)) < 0.5
    moments = left_out_moments(values, mask, np.array([2, 7]))
    np.testing.assert_allclose(moments.variance, naive_moments(values, mask, [2, 7])[2], rtol=1e-6)


def bank_with_both_sides(n_models=12, n_records=30, seed=0):
    """Every record keeps at least two models on either side when any one is left out."""
    rng = np.random.default_rng(seed)
    in_mask = rng.random((n_models, n_records)).argsort(axis=0) < rng.integers(3, n_models - 2, n_records)
    return rng.normal(1, 2, (n_models, n_records)) + 1.5 * in_mask + rng.normal(size=n_records), in_mask


def test_record_variance_is_the_paper_s_algorithm():
    log_odds, in_mask = bank_with_both_sides()
    scores = scored(log_odds, in_mask, "record")
    for target in range(12):
        for i in range(30):
            density = {}
            for is_in in (True, False):
                values = log_odds[others_on(in_mask, target, i, is_in), i]
                density[is_in] = norm.logpdf(log_odds[target, i], values.mean(), values.std())
            assert scores[target, i] == pytest.approx(density[True] - density[False], rel=1e-6, abs=1e-8)


def naive_fixed(log_odds, in_mask, target):
    """One variance a side: the mean squared distance from each record's own mean, over all its models."""
    means, spread = {}, {}
    for is_in in (True, False):
        squares, n = 0.0, 0
        for i in range(log_odds.shape[1]):
            values = log_odds[others_on(in_mask, target, i, is_in), i]
            means[is_in, i] = values.mean()
            squares, n = squares + ((values - values.mean()) ** 2).sum(), n + len(values)
        spread[is_in] = np.sqrt(squares / n)
    return [
        norm.logpdf(s, means[True, i], spread[True]) - norm.logpdf(s, means[False, i], spread[False])
        for i, s in enumerate(log_odds[target])
    ]


def test_fixed_variance_is_pooled_over_all_records_a_side():
    log_odds, in_mask = bank_with_both_sides()
    scores = scored(log_odds, in_mask, "fixed")
    for target in range(12):
        np.testing.assert_allclose(
            scores[target], naive_fixed(log_odds, in_mask, target), rtol=1e-6, atol=1e-8
        )


def test_the_two_variances_differ_where_records_spread_differently():
    log_odds, in_mask = bank_with_both_sides()
    assert np.abs(scored(log_odds, in_mask, "fixed") - scored(log_odds, in_mask, "record")).max() > 0.1


def test_a_known_ratio():
    """Records at 0 out and at 4 in, spread 1 on both sides: an answer s scores 4 (s - 2)."""
    noise = np.array([-1.0, 1.0, -1.0, 1.0])
    in_mask = np.array([True, True, False, False, True])
    log_odds = np.array([*(noise + 4 * in_mask[:4]), 3.0])
    scores = scored(log_odds[:, None], in_mask[:, None], targets=np.array([4]))
    assert scores[0, 0] == pytest.approx(4.0 * (3.0 - 2.0))


@pytest.mark.parametrize("variance", ["fixed", "record"])
@pytest.mark.parametrize("n_in", [0, 1, 9, 10])
def test_every_record_is_scored_however_few_models_are_on_one_side(n_in, variance):
    """Record 0 is in `n_in` of the ten others; what its answer says must still show in the score."""
    log_odds, in_mask = bank_with_both_sides(11)
    in_mask[:, 0] = np.arange(11) < n_in  # the target, model 10, is not among the first ten
    in_mask[10, 0] = n_in == 10
    log_odds[:, 0] = np.random.default_rng(1).normal(size=11) + 3 * in_mask[:, 0]
    scores = []
    for answer in (0.5, 2.0, 3.5):
        log_odds[10, 0] = answer
        scores.append(scored(log_odds, in_mask, variance, np.array([10]))[0, 0])
    assert np.isfinite(scores).all()
    assert np.abs(scores).max() < 100, "one model's missing spread must not drown everything"
    assert scores[0] < scores[1] < scores[2]


def test_a_missing_side_s_mean_is_the_other_s_plus_the_usual_gap():
    """Nine records with an exact gap of 2 and no noise in their means; the tenth was in no model."""
    noise = np.array([-1.0, 1.0, -1.0, 1.0, 0.0])
    in_mask = np.repeat(np.array([True, True, False, False, True])[:, None], 10, axis=1)
    in_mask[:, 9] = False
    log_odds = noise[:, None] + 2.0 * in_mask
    log_odds[4, 9] = 1.0
    scores = scored(log_odds, in_mask, targets=np.array([4]))
    # All spreads are 1: the midpoint between OUT mean 0 and the assumed IN mean 2 scores 0.
    assert scores[0, 9] == pytest.approx(0.0, abs=1e-9)


def test_a_single_reference_shows_the_gap_between_its_own_records_and_others():
    """No record has both sides. The reference gives 5 on its own record, 0 and 1 on others: a gap of 4.5."""
    in_mask = np.array([[True, False, True], [False, True, False]])
    scores = scored(np.array([[3.0, 1, 2], [0, 5, 1]]), in_mask, targets=np.array([0]))
    expected = [norm.logpdf(s, out + 4.5) - norm.logpdf(s, out) for s, out in ((3, 0), (1, 0.5), (2, 1))]
    np.testing.assert_allclose(scores[0], expected)


def test_models_that_all_agree_give_finite_scores():
    """No spread at all: the variance has a floor."""
    in_mask = np.arange(6)[:, None] % 2 == np.array([[0, 1, 0, 1]])
    scores = scored(2.0 * in_mask, in_mask)
    assert np.isfinite(scores).all()
    assert (scores[in_mask] > 0).all()
    assert (scores[~in_mask] < 0).all()


@settings(max_examples=30)
@given(banks, st.floats(-50, 50), st.floats(0.1, 10))
def test_scores_do_not_depend_on_the_unit_of_the_signal(bank, shift, scale):
    values, mask = bank
    sides = [left_out_moments(values, m, np.arange(len(values))) for m in (mask, ~mask)]
    # Without any spread to learn from, the unit itself has to serve.
    assume(all((side.n > 1).any(axis=1).all() for side in sides))
    np.testing.assert_allclose(
        scored(scale * values + shift, mask), scored(values, mask), rtol=1e-5, atol=1e-5
    )
