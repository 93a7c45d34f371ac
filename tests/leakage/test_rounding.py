from __future__ import annotations

import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.leakage.rounding import counted_leakage, rounded


def test_values_go_to_the_nearest_multiple() -> None:
    np.testing.assert_allclose(rounded(np.array([0.14, -0.26, 0.0]), 0.1), [0.1, -0.3, 0.0])
    exact = np.array([0.123])
    assert rounded(exact, 0.0) is exact
    with pytest.raises(InputError, match="grid=-1"):
        rounded(exact, -1)


def test_counts_give_the_divergence_of_two_coins() -> None:
    """P(1) is 0.7 with the record and 0.4 without: a divergence known in closed form."""
    rng = np.random.default_rng(0)
    found = np.array([
        np.subtract(*counted_leakage(*((rng.random((2, 500, 1)) < p).astype(float) for p in (0.7, 0.4))))
        for _ in range(50)
    ])  # fmt: skip
    truth = (0.7 - 0.4) * np.log(0.7 / 0.4) + (0.3 - 0.6) * np.log(0.3 / 0.6)
    assert abs(found.mean() - truth) < 4 * found.std(ddof=1) / np.sqrt(50)


def test_a_value_of_one_side_only_is_finite_and_a_gaussian_is_not_needed() -> None:
    outside, inside = np.zeros((2, 200, 1)), np.zeros((2, 200, 1))
    inside[:, :3] = 1.0
    found = counted_leakage(inside, outside)
    assert 0 < found.plug_in < 0.1


def test_too_many_distinct_values_are_not_counted() -> None:
    values = np.random.default_rng(0).standard_normal((2, 2, 50, 3))
    assert np.isnan(counted_leakage(*values).plug_in)
