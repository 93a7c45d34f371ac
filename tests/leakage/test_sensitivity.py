"""The sensitivity of ridge regression: no pair of neighbors exceeds it, and some come close."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.sensitivity import (
    clipped,
    loss_sensitivity,
    ridge_sensitivity,
    solution_radius,
    worst_pair,
)


def solution(inputs: FloatArray, targets: FloatArray, weight: float) -> FloatArray:
    n, p = inputs.shape
    gram = inputs.T @ inputs / n + weight * np.eye(p)
    return np.asarray(np.linalg.solve(gram, inputs.T @ targets / n))


def distance(free: FloatArray, size: int, p: int, weight: float, norm: float, target: float) -> float:
    """Between the solutions of two sets that differ in one record; `free` are (size + 1) (p + 1) numbers."""
    values = free.reshape(size + 1, p + 1)
    inputs, targets = clipped(values[:, :p], norm), target * np.tanh(values[:, p])
    first, second = np.arange(size), np.append(np.arange(size - 1), size)
    solutions = [solution(inputs[rows], targets[rows], weight) for rows in (first, second)]
    return float(np.linalg.norm(solutions[0] - solutions[1]))


@settings(max_examples=200)
@given(
    st.integers(1, 12), st.integers(1, 4), st.floats(1e-3, 10), st.floats(0.1, 5), st.floats(0.1, 3),
    st.integers(0, 2**32 - 1), st.floats(0.1, 100),
)  # fmt: skip
def test_no_random_pair_exceeds_it(
    size: int, p: int, weight: float, norm: float, target: float, seed: int, scale: float
) -> None:
    free = scale * np.random.default_rng(seed).normal(size=(size + 1) * (p + 1))
    reached = distance(free, size, p, weight, norm, target)
    assert reached <= ridge_sensitivity(size, weight, norm, target)


@pytest.mark.parametrize(
    ("size", "weight", "norm"), [(2, 0.5, 1.0), (5, 1.0, 1.0), (5, 0.01, 1.0), (10, 1.0, 2.0)]
)
def test_an_adversary_who_moves_every_record_comes_close_and_never_beyond(
    size: int, weight: float, norm: float
) -> None:
    """Gradient search over all records of both sets, in two dimensions, from several starts."""
    rng = np.random.default_rng(0)
    allowed, found = ridge_sensitivity(size, weight, norm, 0.5), 0.0
    for _ in range(6):
        start = rng.normal(size=(size + 1) * 3) * norm
        best = optimize.minimize(
            lambda free: -distance(free, size, 2, weight, norm, 0.5), start, method="L-BFGS-B"
        )
        found = max(found, -float(best.fun))
    assert 0.8 * allowed < found <= allowed


@pytest.mark.parametrize(("size", "weight", "norm"), [(100, 1.0, 1.0), (30, 0.1, 1.0), (10, 1.0, 2.0)])
def test_the_worst_pair_is_a_real_pair_and_close(size: int, weight: float, norm: float) -> None:
    found = worst_pair(size, weight, norm, 0.5, starts=3)
    sets = [np.vstack([found.shared, one]) for one in (found.first, found.second)]
    assert all((np.linalg.norm(one[:, :2], axis=1) <= norm * (1 + 1e-12)).all() for one in sets)
    assert all((np.abs(one[:, 2]) <= 0.5).all() and len(one) == size for one in sets)
    solutions = [solution(one[:, :2], one[:, 2], weight) for one in sets]
    assert np.linalg.norm(solutions[0] - solutions[1]) == pytest.approx(found.distance, rel=1e-9)
    allowed = ridge_sensitivity(size, weight, norm, 0.5)
    assert 0.8 * allowed < found.distance <= allowed


def test_a_smaller_constant_would_be_broken() -> None:
    """The bound that forgets the residual, 2 C Y / (n weight + C^2), is exceeded."""
    forgetful = 2 * 1.0 * 0.5 / (100 * 1.0 + 1.0)
    assert worst_pair(100, 1.0, 1.0, 0.5, starts=3).distance > forgetful


def test_the_sensitivity_of_the_loss_is_reached_and_holds() -> None:
    rng = np.random.default_rng(0)
    limit = loss_sensitivity(2.0, 0.5, 3.0)
    inputs, theta = clipped(10 * rng.normal(size=(5000, 3)), 2.0), rng.normal(size=(5000, 3))
    theta = 3.0 * theta / np.linalg.norm(theta, axis=1, keepdims=True)
    targets = rng.uniform(-0.5, 0.5, 5000)
    gradients = 2 * np.abs((inputs * theta).sum(axis=1) - targets) * np.linalg.norm(inputs, axis=1)
    assert gradients.max() <= limit
    at_worst = 2 * abs(2.0 * -3.0 - 0.5) * 2.0  # theta against the record
    assert at_worst == pytest.approx(limit)


def test_every_solution_is_in_the_ball() -> None:
    rng = np.random.default_rng(0)
    for weight in (0.01, 0.1, 1.0):
        x, y = rng.normal(size=(6, 3)) * 4, rng.choice([-0.5, 0.5], 6)
        assert np.linalg.norm(solution(x, y, weight)) <= solution_radius(weight, 0.5)


def test_without_a_penalty_there_is_no_sensitivity() -> None:
    with pytest.raises(InputError, match=r"weight=0.*has no bound"):
        ridge_sensitivity(10, 0, 1.0, 0.5)
    with pytest.raises(InputError, match="clip norm=0"):
        clipped(np.ones((2, 2)), 0)
