import numpy as np
import pytest

from leakscope.dynamics.grid import (
    cell_names,
    entry_probability,
    is_vulnerable,
    per_epoch,
    transition_counts,
    transition_matrix,
    vulnerable_cell,
)
from leakscope.dynamics.plane import cells


def test_the_vulnerable_corner_is_low_fpr_and_high_tpr():
    states = np.array([[[0.0, 1.0], [0.33, 2 / 3], [1 / 3, 1.0], [0.0, 0.66], [1.0, 0.0], [1.0, 1.0]]])
    np.testing.assert_array_equal(is_vulnerable(states), [[True, True, False, False, False, False]])
    assert cell_names()[vulnerable_cell()] == "FPR 0-33%, TPR 67-100%"
    assert cell_names(4)[vulnerable_cell(4)] == "FPR 0-25%, TPR 75-100%"
    assert len(cell_names(4)) == 16


@pytest.mark.parametrize("side", [2, 3, 5])
def test_transitions_agree_with_counting(side):
    states = np.random.default_rng(0).random((4, 60, 2))
    counts, at = transition_counts(states, side), cells(states, side)
    expected = np.zeros((3, side**2, side**2), dtype=int)
    for step in range(3):
        for record in range(60):
            expected[step, at[step, record], at[step + 1, record]] += 1
    np.testing.assert_array_equal(counts, expected)
    rows = transition_matrix(counts).sum(axis=-1)
    started = counts.sum(axis=-1) > 0
    np.testing.assert_allclose(rows[started], 1)
    assert np.isnan(rows[~started]).all()


def test_one_checkpoint_has_no_transitions():
    assert transition_counts(np.zeros((1, 5, 2))).shape == (0, 9, 9)


def test_entry_counts_only_those_who_were_outside():
    vulnerable = np.array([[0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [1, 1, 1, 0, 1], [1, 1, 1, 1, 1]], dtype=bool)
    np.testing.assert_allclose(entry_probability(vulnerable), [1 / 4, 3 / 4, 1])
    assert np.isnan(entry_probability(np.ones((2, 3), bool))).all()


def test_entry_is_the_columns_of_the_transition_matrix():
    states = np.random.default_rng(1).random((3, 200, 2))
    counts, corner = transition_counts(states), vulnerable_cell()
    outside = np.delete(counts, corner, axis=1)
    expected = outside[:, :, corner].sum(axis=1) / outside.sum(axis=(1, 2))
    np.testing.assert_allclose(entry_probability(is_vulnerable(states)), expected)


def test_the_rate_per_epoch_does_not_depend_on_the_spacing():
    rate = 0.03
    inside = 1 - (1 - rate) ** np.array([0, 10, 30, 35])  # a constant hazard, seen at uneven epochs
    entered = np.diff(inside) / (1 - inside[:-1])
    np.testing.assert_allclose(per_epoch(entered, (0, 10, 30, 35)), rate)
