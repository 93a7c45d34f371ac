"""Parts of records add up to the figures, and say how sure these are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest

from leakscope.array_types import BoolArray, FloatArray
from leakscope.stats.intervals import delong, wilson
from leakscope.stats.parts import (
    advantage_parts,
    advantage_thresholds,
    agreement_of_halves,
    auc_parts,
    halves,
    ranked,
    rate_parts,
    tpr_parts,
    tpr_slope,
)
from leakscope.stats.roc import auc, split_scores
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.stats.two_way import NoLeakage, two_way_variance

populations = st.tuples(st.integers(1, 4), st.integers(8, 40), st.integers(0, 10**6), st.booleans()).map(
    lambda size: (
        np.round(np.random.default_rng(size[2]).normal(size=size[:2]), 1 if size[3] else 9),
        np.arange(size[1]) % 2 == np.random.default_rng(size[2]).integers(0, 2, (size[0], 1)),
    )
)


@settings(max_examples=60)
@given(populations)
def test_parts_add_up_to_the_mean_over_targets(population) -> None:
    scores, in_mask = population
    rows = list(zip(scores, in_mask, strict=True))
    ranks = ranked(scores, in_mask)
    assert auc_parts(ranks).sum() == pytest.approx(np.mean([auc(*row) for row in rows]))
    for fpr in (0.3, 0.5):
        expected = np.mean([tpr_at_expected_fpr(split_scores(*row), fpr) for row in rows])
        assert tpr_parts(ranks, fpr, 1.5).sum() == pytest.approx(expected)
    calls = scores > 0
    shares = [called[members].mean() for called, members in zip(calls, in_mask, strict=True)]
    assert rate_parts(calls.astype(float), in_mask).sum() == pytest.approx(np.mean(shares))


def test_ties_count_as_if_they_were_broken_at_random() -> None:
    rng = np.random.default_rng(4)
    scores, is_member = rng.integers(0, 4, 30).astype(float), np.arange(30) % 3 > 0
    for fpr in (0.1, 0.25, 0.6):
        broken = [
            tpr_at_expected_fpr(split_scores(scores + 0.1 * rng.random(30), is_member), fpr)
            for _ in range(4_000)
        ]
        error = 4 * np.std(broken) / np.sqrt(len(broken))
        assert tpr_at_expected_fpr(split_scores(scores, is_member), fpr) == pytest.approx(
            np.mean(broken), abs=error
        )


@pytest.mark.parametrize("separation", [0.0, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("fpr", [0.01, 0.03, 0.1])
def test_the_slope_is_that_of_a_concave_curve(separation: float, fpr: float) -> None:
    """Of two normal distributions, whose curve has the slope of their likelihood ratio."""
    at_quantiles = ndtri((np.arange(20_000) + 0.5) / 20_000)
    scores = np.concatenate([at_quantiles + separation, at_quantiles])[None]
    slope = tpr_slope(ranked(scores, np.arange(40_000)[None] < 20_000), fpr)
    exact = np.exp(separation * (-ndtri(fpr) - separation / 2))
    assert exact * 0.95 < slope < exact * 1.03


@pytest.mark.filterwarnings("error")
def test_where_all_are_called_no_threshold_matters() -> None:
    ranks = ranked(np.random.default_rng(0).normal(size=(3, 50)), np.arange(50) < np.full((3, 1), 20))
    assert tpr_slope(ranks, 1.0) == 0
    assert tpr_slope(ranks, 1.0, np.eye(3)).tolist() == [0, 0, 0]
    parts = tpr_parts(ranks, 1.0, tpr_slope(ranks, 1.0))
    assert parts.sum() == pytest.approx(1.0)


def test_the_slope_where_no_member_is_called_is_that_of_a_line() -> None:
    scores = np.r_[np.linspace(82.5, 88.5, 7), np.arange(100.0)][None]  # the highest two tenths call all
    slope = tpr_slope(ranked(scores, np.arange(107)[None] < 7), 0.1)
    assert slope == pytest.approx(1 / 0.15)


def test_one_score_for_all_has_a_tpr_of_the_fpr() -> None:
    same = split_scores(np.zeros(100), np.arange(100) % 2 == 0)
    assert tpr_at_expected_fpr(same, 0.1) == pytest.approx(0.1)


def test_the_scatter_of_one_target_s_parts_is_delong_s_variance() -> None:
    rng = np.random.default_rng(0)
    is_member = rng.random(4_000) < 0.5
    scores = rng.normal(size=4_000) + 0.7 * is_member
    variance = two_way_variance(auc_parts(ranked(scores[None], is_member[None])), None, None, 4_000, 1)
    expected = delong(scores, is_member).standard_error
    assert variance.standard_error(these_records=False) == pytest.approx(expected, rel=0.01)


def test_the_advantage_is_measured_where_its_threshold_was_not_chosen() -> None:
    rng = np.random.default_rng(1)
    in_mask = rng.random((4, 300)) < 0.5
    scores = rng.normal(size=in_mask.shape) + 2.0 * in_mask
    thresholds, fold = advantage_thresholds(scores, in_mask), halves(300)
    changed = scores.copy()
    changed[:, fold == 0] = -changed[:, fold == 0]
    again = advantage_thresholds(changed, in_mask)
    assert (again[fold == 0] == thresholds[fold == 0]).all()
    assert (again[fold == 1] != thresholds[fold == 1]).all()
    advantage = advantage_parts(scores, in_mask, thresholds).sum()
    assert advantage == pytest.approx(0.683, abs=0.06)  # 2 Phi(1) - 1


def test_without_leakage_the_tpr_is_the_fpr_and_the_advantage_is_zero_on_average() -> None:
    rng = np.random.default_rng(2)
    tprs, advantages = [], []
    for _ in range(400):
        in_mask = np.arange(200) % 2 == 0
        scores = rng.normal(size=(1, 200))
        tprs.append(tpr_at_expected_fpr(split_scores(scores[0], in_mask), 0.05))
        thresholds = advantage_thresholds(scores, in_mask[None])
        advantages.append(advantage_parts(scores, in_mask[None], thresholds).sum())
    for values, truth in ((tprs, 0.05), (advantages, 0.0)):
        assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(400)


def test_variance_of_independent_targets_is_that_of_their_mean() -> None:
    """Targets without references and with own effects: the variance over populations is the estimated one."""
    rng = np.random.default_rng(3)
    estimates, means = [], []
    for _ in range(300):
        values = rng.normal(0, 0.2, (12, 1)) + rng.normal(0, 1, (12, 80))
        counted = np.ones(values.shape, dtype=bool)
        parts = rate_parts(values, counted)
        without = np.stack([rate_parts(np.delete(values, m, 0), np.delete(counted, m, 0)) for m in range(12)])
        variance = two_way_variance(parts, without, None, 80, len(without), uses_references=False)
        estimates.append(variance.standard_error(these_records=True) ** 2)
        means.append(values.mean())
    assert np.mean(estimates) == pytest.approx(np.var(means, ddof=1), rel=0.25)


def test_a_balanced_design_hides_no_spread_that_all_records_share() -> None:
    """Accuracies of 8 models that differ by a level of their own, on members of a balanced design."""
    rng = np.random.default_rng(4)
    estimates, means = [], []
    for _ in range(400):
        counted = np.argsort(rng.random((8, 60)), axis=0) < 4
        values = rng.normal(0, 0.3, (8, 1)) + rng.normal(0, 0.1, 60) + rng.normal(0, 0.3, (8, 60))
        parts = rate_parts(values, counted)
        without = np.stack([rate_parts(np.delete(values, m, 0), np.delete(counted, m, 0)) for m in range(8)])
        variance = two_way_variance(
            parts, without, counted.astype(float), 60, len(without), uses_references=False
        )
        estimates.append(variance.standard_error(these_records=True) ** 2)
        means.append(parts.sum())
    ratio = np.mean(estimates) / np.var(means, ddof=1)
    # The spread of a variance over 400 populations is 7%, that of the mean estimate 3%.
    assert ratio == pytest.approx(1.0, abs=0.2)


def _leave_out_each(values: FloatArray, counted: BoolArray) -> FloatArray:
    models = range(len(values))
    return np.stack([rate_parts(np.delete(values, m, 0), np.delete(counted, m, 0)) for m in models])


@pytest.mark.parametrize("n_models", [8, 32])
def test_what_another_sample_changes_in_all_models_does_not_average_out(n_models: int) -> None:
    """Models with a level of their own, of variance 0.09: the variance of one model, if not of their mean."""
    rng = np.random.default_rng(5)
    variances = []
    for _ in range(200):
        values = rng.normal(0, 0.3, (n_models, 1)) + rng.normal(0, 0.1, (n_models, 60))
        counted = np.ones(values.shape, dtype=bool)
        without = _leave_out_each(values, counted)
        parts = rate_parts(values, counted)
        far = NoLeakage(-100.0)  # a figure that leaks so much that nothing is limited
        variances.append(two_way_variance(parts, without, None, 60, n_models, False, far))
    # The mean of 200 estimates with 7 degrees of freedom has a standard error of 4%. `sampled` is half of the
    # upper end of a one-sided interval for the same variance, 1 / 0.608 of it with 7 degrees of freedom and
    # 1 / 0.820 with 31.
    assert np.mean([own.common for own in variances]) == pytest.approx(0.09 / n_models, rel=0.15)
    upper = {8: 0.09 / 0.608, 32: 0.09 / 0.820}[n_models]
    assert np.mean([own.sampled for own in variances]) == pytest.approx(upper / 2, rel=0.15)


@pytest.mark.parametrize("no_leakage", [None, NoLeakage(-100.0)])
def test_models_that_seem_equal_do_not_promise_that_another_sample_changes_none(
    no_leakage: NoLeakage | None,
) -> None:
    """All models give the same outputs: what differs from record to record counts for both of its roles."""
    values = np.broadcast_to(np.random.default_rng(9).normal(size=40), (8, 40))
    counted = np.ones(values.shape, dtype=bool)
    without = _leave_out_each(values, counted)
    variance = two_way_variance(rate_parts(values, counted), without, None, 40, 8, False, no_leakage)
    assert variance.common == pytest.approx(0, abs=1e-12)
    assert variance.sampled == pytest.approx(variance.like_these)
    assert variance.like_these == pytest.approx(values[0].var(ddof=1) / 40)


def _parts_of_each_target(rng: np.random.Generator, n_models: int) -> FloatArray:
    """Parts of the AUC, of models whose training records raise or lower how much all members leak.

    Record i moves the gap between the scores of members and of non-members by `influence[i]` in each model
    that is trained on it. Seeds move it as much again.
    """
    n_records = 200
    in_mask = np.argsort(rng.random((n_models, n_records)), axis=1) < n_records // 2
    influence = rng.normal(0, 1.2, n_records) / n_records
    gap = 1.0 + 2 * (in_mask - 0.5) @ influence + influence.sum()
    gap += rng.normal(0, np.sqrt((influence**2).sum()), n_models)
    scores = rng.normal(size=in_mask.shape) + np.where(in_mask, gap[:, None], 0.0)
    rows = zip(scores, in_mask, strict=True)
    return np.stack([auc_parts(ranked(own[None], members[None])) for own, members in rows])


def _auc_and_reach(rng: np.random.Generator, n_models: int) -> tuple[float, float, float]:
    """AUC of one population, half width of its interval for other records, and the same without `sampled`."""
    of_targets = _parts_of_each_target(rng, n_models)
    parts, n_records = of_targets.mean(axis=0), of_targets.shape[1]
    groups = np.array_split(np.arange(n_models), min(n_models, 16))
    without = np.stack([np.delete(of_targets, group, 0).mean(axis=0) for group in groups])
    variance = two_way_variance(parts, without, None, n_records, n_models, False, NoLeakage(0.5))
    reach, short = (
        one.quantile(0.95, these_records=False) * one.standard_error(these_records=False)
        for one in (variance, variance._replace(sampled=0.0))
    )
    return float(parts.sum()), reach, short


@pytest.mark.slow
@pytest.mark.parametrize("n_models", [8, 32])
def test_intervals_for_other_records_hold_where_training_records_cause_half_of_the_spread(
    n_models: int,
) -> None:
    """Intervals that forget that records are also trained on fail far more often than they say.

    Of intervals that hold in 93% of all cases, fewer than 89% hold in 300 with a probability of 0.5%.
    """
    rng = np.random.default_rng(6)
    truth = float(ndtr(1 / np.sqrt(2)))  # a gap of 1 between normal scores; influences have a mean of 0
    aucs, reach, short = np.array([_auc_and_reach(rng, n_models) for _ in range(300)]).T
    bias = aucs.mean() - truth
    assert abs(bias) < 4 * aucs.std() / np.sqrt(300) + 0.003
    errors = np.abs(aucs - aucs.mean())
    assert np.mean(errors <= reach) >= 0.89
    assert np.mean(errors <= short) < 0.85


def test_where_nothing_leaks_other_training_records_change_nothing() -> None:
    """An AUC of 0.5 stays one, however much models differ; without this limit, intervals double."""
    rng = np.random.default_rng(7)
    in_mask = np.argsort(rng.random((16, 400)), axis=1) < 200
    scores = rng.normal(size=in_mask.shape)
    scores -= np.where(in_mask, scores.mean(axis=1, where=in_mask)[:, None], 0.0)
    parts = auc_parts(ranked(scores, in_mask))
    without = np.stack([
        auc_parts(ranked(np.delete(scores, m, 0), np.delete(in_mask, m, 0))) for m in range(16)
    ])  # fmt: skip
    limited = two_way_variance(parts, without, None, 400, 16, False, NoLeakage(0.5))
    assert limited.sampled <= 3 * (parts.sum() - 0.5) ** 2 / 400 + 1e-15
    assert limited.sampled < 0.02 * limited.like_these


def test_wilson_s_interval_does_not_trust_a_small_rate_s_small_error() -> None:
    low, high = wilson(0.01, 0.003, 1.96)
    assert 0 < low < 0.01 - 0.003 and high > 0.01 + 1.96 * 0.003
    assert wilson(0.5, 0.05, 1.96) == pytest.approx((0.402, 0.598), abs=0.003)


@pytest.mark.parametrize("n_independent", [0, 18])
def test_a_rate_near_one_of_few_records_is_no_wider_than_their_number_allows(n_independent: int) -> None:
    """A spread of 0.004 beside 1 - rate = 0.00004 is not that of a sample of two or three."""
    low, high = wilson(0.99996, 0.004, 1.96, n_independent)
    assert 1 / (1 + 1.96**2 / 18) <= low < 0.99996 - 1.96 * 0.004 and high <= 1


def test_a_rate_s_variance_is_at_most_that_of_its_independent_records() -> None:
    n_records, error = 18, 0.3  # an error that not even five independent records have
    of_a_binomial = binomtest(n_records // 2, n_records).proportion_ci(method="wilson")
    expected = pytest.approx((of_a_binomial.low, of_a_binomial.high))
    assert wilson(0.5, error, float(ndtri(0.975)), n_records) == expected
    assert wilson(0.5, 0.05, 1.96, n_records) == wilson(0.5, 0.05, 1.96)


def test_the_halves_of_the_advantage_agree_by_chance() -> None:
    """Two curves, each read where the other is largest, vary together."""
    rng = np.random.default_rng(5)
    shares = np.arange(0.02, 0.99, 0.02)
    bridge = np.linalg.cholesky(np.minimum.outer(shares, shares) - np.outer(shares, shares))
    for height in (0.0, 0.5, 1.0, 2.0, 4.0):
        first, second = rng.normal(size=(2, 4_000, len(shares))) @ bridge.T + 4 * height * shares * (
            1 - shares
        )
        each = np.arange(4_000)
        at_first, at_second = second[each, first.argmax(axis=1)], first[each, second.argmax(axis=1)]
        variance = ((at_first + at_second) / 2).var()
        independent = (at_first.var() + at_second.var()) / 4
        multiple = agreement_of_halves(height, float(np.sqrt(0.25 / 2)))
        assert multiple > variance / independent - 0.1  # spread over 4,000 draws: 0.03
        assert multiple < 1.6


def test_a_sure_advantage_needs_no_allowance() -> None:
    assert agreement_of_halves(0.3, 0.01) == pytest.approx(1.02, abs=0.01)
    assert agreement_of_halves(0.3, float("nan")) == 1.0
