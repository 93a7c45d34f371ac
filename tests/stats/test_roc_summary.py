import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.errors import InputError
from leakscope.stats.roc import advantage, auc, operating_point, roc
from leakscope.stats.roc_summary import roc_summary

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


def test_records_without_a_score_are_refused():
    scores = np.random.default_rng(0).standard_normal(50)
    scores[:7] = np.nan
    with pytest.raises(InputError, match="7 of 50"):
        roc_summary(scores, scores > 0)


def test_a_target_without_members_is_undefined():
    empty = roc_summary([1.0, 2.0], [False, False], (0.5,))
    assert np.isnan(empty.auc) and np.isnan(empty.advantage)
    assert "0 members" in empty.points[0].reason
