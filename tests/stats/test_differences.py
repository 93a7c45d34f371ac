"""Differences with intervals: closed forms, naive references, coverage, and what pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leakscope.errors import InputError
from leakscope.stats.differences import (
    Replicated,
    advantage_difference,
    auc_difference,
    jackknife_difference,
    rate_difference,
    record_change_p_values,
    recovered_difference,
    welch_degrees,
)
from leakscope.stats.intervals import Interval, advantage_interval, clopper_pearson, delong
from leakscope.stats.roc import auc


def replicated(values: np.ndarray) -> Replicated:
    """Of a mean over models, each model a group: (models, figures)."""
    n = len(values)
    return Replicated(values.mean(axis=0), (values.sum(axis=0) - values) / (n - 1))


def test_the_jackknife_of_means_is_welchs_t_interval() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, 12), rng.normal(1, 3, 7)
    (found,) = jackknife_difference(replicated(first[:, None]), replicated(second[:, None]), is_paired=False)
    expected = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    assert found.value == pytest.approx(second.mean() - first.mean())
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high))


def test_the_jackknife_of_paired_means_is_the_paired_t_interval() -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(0, 5, 10)
    first, second = common + rng.normal(0, 0.1, 10), common + 0.3 + rng.normal(0, 0.1, 10)
    a, b = replicated(first[:, None]), replicated(second[:, None])
    (paired,), (welch,) = (jackknife_difference(a, b, is_paired) for is_paired in (True, False))
    expected = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert (paired.interval.low, paired.interval.high) == pytest.approx((expected.low, expected.high))
    assert 0 not in paired.interval and 0 in welch.interval  # what models have in common cancels


def test_a_run_against_itself_differs_by_exactly_nothing() -> None:
    own = replicated(np.random.default_rng(2).normal(size=(8, 3)))
    for found in jackknife_difference(own, own, is_paired=True):
        assert (found.value, found.interval.low, found.interval.high) == (0, 0, 0)


def test_without_groups_there_is_no_interval_and_unequal_groups_do_not_pair() -> None:
    alone = Replicated(np.array([0.5]), np.empty((0, 1)))
    (found,) = jackknife_difference(alone, alone, is_paired=True)
    assert np.isnan(found.interval.low) and "undefined" in found.interval.method
    with pytest.raises(InputError, match="pairs need the same groups"):
        jackknife_difference(alone, Replicated(np.array([0.5]), np.ones((4, 1))), is_paired=True)


def test_welch_degrees_lie_between_the_smaller_sample_and_both() -> None:
    equal = welch_degrees((np.array([2.0]), np.array([2.0])), (10, 10))
    one_sided = welch_degrees((np.array([0.0]), np.array([2.0])), (30, 10))
    neither = welch_degrees((np.array([0.0]), np.array([0.0])), (30, 10))
    assert (equal, one_sided, neither) == (pytest.approx(18), pytest.approx(9), pytest.approx(9))


def naive_delong_difference(a: np.ndarray, b: np.ndarray, is_member: np.ndarray) -> tuple[float, float]:
    """Difference and its standard error from all pairs, as DeLong et al. write it."""

    def placements(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = scores[is_member][:, None], scores[~is_member][None]
        kernel = (x > y) + 0.5 * (x == y)
        return kernel.mean(axis=1), kernel.mean(axis=0)

    (a10, a01), (b10, b01) = placements(a), placements(b)
    covariance = np.cov(np.stack([a10, b10])) / len(a10) + np.cov(np.stack([a01, b01])) / len(a01)
    contrast = np.array([-1, 1])
    return b10.mean() - a10.mean(), float(np.sqrt(contrast @ covariance @ contrast))


def test_auc_difference_is_delongs_for_the_same_members() -> None:
    rng = np.random.default_rng(3)
    is_member = rng.permutation(90) < 40
    a = np.round(rng.normal(is_member, 1), 1)  # with ties
    b = a + rng.normal(0.3 * is_member, 0.5)
    value, error = naive_delong_difference(a, b, is_member)
    found = auc_difference(a, b, is_member, is_member)
    assert found.value == pytest.approx(value) == pytest.approx(auc(b, is_member) - auc(a, is_member))
    assert found.interval.high - found.value == pytest.approx(stats.norm.ppf(0.975) * error)


def test_auc_difference_of_other_members_covers_as_it_says() -> None:
    """Same records, other halves trained on: records' difficulty still goes into both."""
    rng = np.random.default_rng(4)
    covered = []
    for _ in range(300):
        difficulty = rng.normal(size=120)
        first, second = (rng.random(120) < 0.5 for _ in range(2))
        a, b = (difficulty + 0.8 * m + rng.normal(size=120) for m in (first, second))
        covered.append(0 in auc_difference(a, b, first, second).interval)
    assert 0.91 <= np.mean(covered) <= 0.985


def test_a_single_record_that_changes_sides_leaves_an_interval_that_covers() -> None:
    """As of a model before and after one person was taken out: nobody estimates variance from one record."""
    rng, covered, widths = np.random.default_rng(4), [], []
    for _ in range(400):
        first = rng.permutation(60) < 30
        second = first.copy()
        second[np.argmax(first)] = False
        a, b = (rng.normal(size=60) + members for members in (first, second))
        interval = auc_difference(a, b, first, second).interval
        covered.append(0 in interval)
        widths.append(interval.high - interval.low)
    assert np.mean(covered) > 0.93
    assert np.mean(widths) < 0.45


def test_unrelated_models_have_the_sum_of_delongs_variances() -> None:
    rng = np.random.default_rng(5)
    is_member = np.arange(4000) % 2 == 0
    a, b = rng.normal(is_member), rng.normal(is_member)
    found = auc_difference(a, b, is_member, is_member)
    errors = [delong(s, is_member).standard_error for s in (a, b)]
    assert found.interval.high - found.value == pytest.approx(1.96 * np.hypot(*errors), rel=0.05)


def test_rates_are_newcombes_square_and_add() -> None:
    found = rate_difference((8, 20), (15, 30))
    first, second = clopper_pearson(8, 20), clopper_pearson(15, 30)
    assert found.value == pytest.approx(0.1)
    assert found.interval.low == pytest.approx(0.1 - np.hypot(0.5 - second.low, first.high - 0.4))
    assert found.interval.high == pytest.approx(0.1 + np.hypot(second.high - 0.5, 0.4 - first.low))


@settings(max_examples=50)
@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.5, 0.99))
def test_exchanging_the_runs_turns_the_interval_round(k: int, m: int, level: float) -> None:
    there, back = rate_difference((k, 30), (m, 30), level), rate_difference((m, 30), (k, 30), level)
    assert (back.interval.low, back.interval.high) == pytest.approx(
        (-there.interval.high, -there.interval.low)
    )
    assert there.interval.low <= there.value <= there.interval.high


def test_advantages_add_their_bands_at_half_the_error_each() -> None:
    found = advantage_difference((0.3, 0.5), (400, 400), (300, 500))
    first, second = advantage_interval(0.3, 400, 400, 0.975), advantage_interval(0.5, 300, 500, 0.975)
    assert (found.interval.low, found.interval.high) == (second.low - first.high, second.high - first.low)


def test_an_interval_recovered_from_normal_ones_is_the_normal_one_at_any_level() -> None:
    z = stats.norm.ppf(0.975)
    ends = Interval(1 - z, 1 + z, 0.95, ""), Interval(3 - 2 * z, 3 + 2 * z, 0.95, "")
    for level in (0.95, 0.999):
        found = recovered_difference((1.0, 3.0), ends, level)
        half_width = stats.norm.ppf((1 + level) / 2) * np.sqrt(5)
        assert (found.interval.low, found.interval.high) == pytest.approx((2 - half_width, 2 + half_width))


def test_records_that_changed_are_found_and_others_are_not() -> None:
    rng = np.random.default_rng(6)
    n = np.full(4000, 32)

    def counts(tpr: np.ndarray | float) -> np.ndarray:
        return np.stack([rng.binomial(n, tpr), n, rng.binomial(n, 0.2), n])

    changed = np.arange(4000) < 1000
    same = record_change_p_values(counts(0.5), counts(0.5))
    moved = record_change_p_values(counts(0.95), counts(np.where(changed, 0.2, 0.95)))
    assert (same < 0.05).mean() <= 0.06 and (same < 0.001).mean() <= 0.003
    assert (moved[changed] < 0.001).mean() > 0.95 and (moved[~changed] < 0.05).mean() <= 0.06
    nobody = np.array([[0], [0], [3], [10]])
    assert np.isnan(record_change_p_values(nobody, nobody)).all()


def test_an_auc_needs_both_sides() -> None:
    everyone = np.ones(4, dtype=bool)
    with pytest.raises(InputError, match="one side is empty"):
        auc_difference(np.arange(4.0), np.arange(4.0), everyone, everyone)
