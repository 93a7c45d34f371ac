import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.errors import InputError
from leakscope.stats.roc import advantage, auc, operating_point, roc
from leakscope.stats.roc_summary import roc_summaries, roc_summary

BUDGETS = (0.01, 0.1, 0.34, 1.0)
small_problems = st.tuples(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 8))


def tied_problem(seed, n, n_levels):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, n_levels, n).astype(float)
    scores[rng.random(n) < 0.1] = np.inf
    is_member = rng.random(n) < 0.5
    is_member[:2] = True, False
    return scores, is_member


@given(small_problems)
def test_equals_what_the_whole_curve_says(problem):
    scores, is_member = tied_problem(*problem)
    curve = roc(scores, is_member)
    found = roc_summary(scores, is_member, BUDGETS)
    assert found.auc == auc(scores, is_member)
    assert found.advantage == pytest.approx(advantage(curve), abs=1e-12)
    for point, budget in zip(found.points, BUDGETS, strict=True):
        expected = operating_point(curve, budget)
        assert point[:4] == pytest.approx(expected[:4], nan_ok=True)
        assert point.reason == expected.reason


def test_rows_equal_one_target_at_a_time():
    rng = np.random.default_rng(0)
    scores, in_mask = rng.standard_normal((5, 80)), rng.random((5, 80)) < 0.5
    scores += in_mask
    expected = [auc(s, m) for s, m in zip(scores, in_mask, strict=True)]
    tprs = [operating_point(roc(s, m), 0.1).tpr for s, m in zip(scores, in_mask, strict=True)]
    rows = roc_summaries(scores, in_mask, (0.1,))
    assert [row.auc for row in rows] == expected
    assert [row.points[0].tpr for row in rows] == tprs


def test_records_without_a_score_are_refused():
    scores = np.random.default_rng(0).standard_normal((2, 50))
    scores[1, :7] = np.nan
    with pytest.raises(InputError, match="7 of 50"):
        roc_summaries(scores, scores > 0)


def test_a_target_without_members_is_undefined_and_the_others_are_not():
    scores = np.array([[1.0, 2.0], [1.0, 2.0]])
    found = roc_summaries(scores, np.array([[False, False], [False, True]]))
    assert np.isnan(found[0].auc)
    assert found[1].auc == 1.0
    empty = roc_summaries(scores, np.zeros((2, 2), bool), (0.5,))[0]
    assert np.isnan(empty.advantage)
    assert "0 members" in empty.points[0].reason


def test_shapes_must_agree():
    with pytest.raises(InputError, match="targets, records"):
        roc_summaries(np.ones((2, 3)), np.ones((3, 2), bool))
    with pytest.raises(InputError, match="targets, records"):
        roc_summaries(np.ones(3), np.ones(3, bool))
