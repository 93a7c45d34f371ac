"""Logarithms of probabilities, also of exactly 0."""

import numpy as np
import pytest

from leakscope.signals.probabilities import log_probabilities


def test_positive_probabilities_are_left_as_they_are():
    p = np.array([[0.9, 0.1], [1e-4, 1 - 1e-4]])
    np.testing.assert_allclose(log_probabilities(p), np.log(p), rtol=1e-6)


def test_a_forest_s_zero_is_half_a_step():
    p = np.array([[1.0, 0.0, 0.0], [0.996, 0.004, 0.0]])
    assert log_probabilities(p)[0, 1] == pytest.approx(np.log(0.002 / 2))


@pytest.mark.parametrize(("smallest", "floor"), [(1e-12, 1e-6), (0.2, 0.01)])
def test_the_floor_stays_within_reason(smallest, floor):
    p = np.array([[1.0, 0.0], [1 - smallest, smallest]])
    assert log_probabilities(p)[0, 1] == pytest.approx(np.log(floor), rel=1e-5)


def test_all_zeros_and_float32_are_finite():
    assert np.isfinite(log_probabilities(np.zeros((2, 3)))).all()
    assert np.isfinite(log_probabilities(np.eye(3, dtype=np.float32))).all()
