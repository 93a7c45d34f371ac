import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.stats.groups import Grouping, group_metrics, group_spread
from leakscope.stats.intervals import clopper_pearson, delong
from leakscope.stats.roc import auc, operating_point, roc


@pytest.fixture
def two_groups():
    """Group "b" leaks, group "a" does not, and "tiny" has too few records to say."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["b", "a", "tiny"], [400, 400, 12])
    is_member = np.arange(812) % 2 == 0
    scores = rng.standard_normal(812) + 2 * (is_member & (groups == "b"))
    return scores, is_member, Grouping.of(groups)


def test_each_group_equals_the_metrics_of_its_records(two_groups):
    scores, is_member, groups = two_groups
    labels = np.array(groups.names)[groups.codes]
    a, b, tiny = group_metrics(scores, is_member, groups, (0.1, 0.001))
    assert [a.group, b.group, tiny.group] == ["a", "b", "tiny"]
    at = labels == "b"
    assert b.auc.value == auc(scores[at], is_member[at])
    assert b.auc.interval == delong(scores[at], is_member[at]).interval
    point = operating_point(roc(scores[at], is_member[at]), 0.1)
    assert b.tpr_at_fpr[0].value == point.tpr
    exact = clopper_pearson(round(point.tpr * 200), 200)
    assert (b.tpr_at_fpr[0].interval.low, b.tpr_at_fpr[0].interval.high) == (exact.low, exact.high)
    assert "same scores" in b.tpr_at_fpr[0].interval.method
    assert 0.5 in a.auc.interval
    assert a.auc.interval.high < b.auc.interval.low
    assert b.advantage.value in b.advantage.interval
    assert (b.n_members, b.n_nonmembers) == (200, 200)


def test_small_groups_and_fine_budgets_are_undefined_with_a_reason(two_groups):
    *_, b, tiny = group_metrics(*two_groups, (0.1, 0.001))
    assert np.isnan(b.tpr_at_fpr[1].value)
    assert "1/200" in b.tpr_at_fpr[1].reason
    for measured in (tiny.auc, tiny.advantage, *tiny.tpr_at_fpr):
        assert np.isnan(measured.value)
        assert "6 members and 6 non-members; it takes 10 of each" in measured.reason
    assert not np.isnan(group_metrics(*two_groups, n_least=5)[2].auc.value)


def test_a_group_of_members_only_is_undefined():
    found = group_metrics(np.arange(20.0), np.ones(20, bool), Grouping.of(np.repeat("x", 20)))
    assert "0 non-members" in found[0].auc.reason


def test_over_targets(two_groups):
    rng = np.random.default_rng(1)
    grouping = two_groups[2]
    groups = np.array(grouping.names)[grouping.codes]
    in_mask = rng.random((6, 812)) < 0.5
    in_mask[0, groups == "a"] = True  # target 0 has no non-members in group "a"
    scores = rng.standard_normal((6, 812)) + 2 * (in_mask & (groups == "b"))
    a, b, tiny = group_spread(scores, in_mask, grouping, (0.1,))
    expected = np.mean(
        [auc(s[groups == "b"], m[groups == "b"]) for s, m in zip(scores, in_mask, strict=True)]
    )
    assert b.auc.mean == pytest.approx(expected)
    assert (b.auc.n, a.auc.n, a.auc.n_undefined) == (6, 5, 1)
    assert a.auc.interval.high < b.auc.interval.low
    assert np.isnan(tiny.auc.mean)
    assert b.tpr_at_fpr[0].mean > 0.4
    assert b.n_records == 400


def test_labels_must_match_records():
    with pytest.raises(InputError, match="one label per record"):
        group_metrics(np.ones(3), np.ones(3, bool), Grouping.of(["a"]))
    with pytest.raises(InputError, match="one label per record"):
        group_spread(np.ones((2, 3)), np.ones((2, 3), bool), Grouping.of(["a"]))


def test_groups_are_those_of_sorted_labels():
    labels = np.random.default_rng(0).choice(["b", "", "aa", "a", "\U0001f600 \u05d0"], 500)
    found = Grouping.of(labels)
    assert found.names == tuple(np.unique(labels).tolist())
    np.testing.assert_array_equal(np.array(found.names)[found.codes], labels)
    for name, at in found.items():
        np.testing.assert_array_equal(at, np.flatnonzero(labels == name))
