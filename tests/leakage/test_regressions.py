from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from leakscope.array_types import FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.leakage.regressions import (
    draw_others,
    mean_square_inputs,
    moment_sums,
    moment_table,
    ridge,
    training_loss,
)


def people(n: int = 60, n_features: int = 3, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, n_features))
    return x, (x[:, 0] + rng.standard_normal(n) > 0.3).astype(np.float64)


def naive_ridge(x: FloatArray, y: FloatArray, weight: float) -> FloatArray:
    """The objective, one model at a time: extra rows sqrt(n weight) I stand for the penalty."""
    a = np.column_stack([np.ones(len(x)), x])
    penalty = np.sqrt(len(x) * weight) * np.eye(a.shape[1])
    rows, right = np.concatenate([a, penalty]), np.concatenate([y, np.zeros(a.shape[1])])
    return np.linalg.lstsq(rows, right, rcond=1e-9)[0]


def trained(table: FloatArray, draws: IntArray, weight: float = 0.0) -> FloatArray:
    return ridge(moment_sums(table, draws), draws.shape[1], weight)


@settings(max_examples=25)
@given(st.integers(8, 40), st.sampled_from([0.0, 1e-6, 0.1, 10.0]), st.integers(1, 5), st.integers(0, 99))
def test_all_models_at_once_are_the_models_one_by_one(n: int, weight: float, p: int, seed: int) -> None:
    x, y = people(n_features=p, seed=seed)
    draws = draw_others(np.random.default_rng(seed), len(y), 3, 20, n)
    expected = [naive_ridge(x[rows], y[rows], weight) for rows in draws]
    np.testing.assert_allclose(trained(moment_table(x, y), draws, weight), expected, rtol=1e-6, atol=1e-8)


def test_without_a_penalty_it_is_linear_regression() -> None:
    x, y = people()
    rows = np.arange(20)
    model = LinearRegression().fit(x[rows], y[rows])
    found = trained(moment_table(x, y), rows[None])[0]
    np.testing.assert_allclose(found, [model.intercept_, *model.coef_], atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_records_than_parameters_give_the_solution_of_smallest_norm(n: int) -> None:
    x, y = people(n_features=4)
    draws = draw_others(np.random.default_rng(0), len(y), 0, 10, n)
    expected = [naive_ridge(x[rows], y[rows], 0.0) for rows in draws]
    np.testing.assert_allclose(trained(moment_table(x, y), draws), expected, atol=1e-7)


def test_a_constant_column_changes_no_answer_and_breaks_nothing() -> None:
    x, y = people()
    draws = draw_others(np.random.default_rng(0), len(y), 0, 10, 15)
    with_constant = np.column_stack([x, np.zeros(len(x))])
    found = trained(moment_table(with_constant, y), draws)
    np.testing.assert_allclose(found[:, :-1], trained(moment_table(x, y), draws), atol=1e-9)
    assert (found[:, -1] == 0).all()
    doubled = trained(moment_table(np.column_stack([x, np.ones(len(x))]), y), draws)  # the intercept again
    np.testing.assert_allclose(doubled[:, 0], doubled[:, -1], atol=1e-9)


def test_the_first_features_are_the_first_entries() -> None:
    x, y = people(n_features=5)
    sums = moment_sums(moment_table(x, y), np.arange(20)[None])
    fewer = moment_sums(moment_table(x[:, :2], y), np.arange(20)[None])
    np.testing.assert_allclose(ridge(sums, 20, 0.1, n_features=2), ridge(fewer, 20, 0.1), atol=1e-12)
    np.testing.assert_allclose(mean_square_inputs(sums, 20, 2), 1 + (x[:20, :2] ** 2).sum(axis=1).mean())


def test_a_training_set_grows_and_exchanges_records_by_adding_moments() -> None:
    x, y = people()
    table, rows = moment_table(x, y), np.arange(12)
    grown = moment_sums(table, rows[None, :7]) + moment_sums(table, rows[None, 7:])
    np.testing.assert_allclose(grown, moment_sums(table, rows[None]), atol=1e-12)
    exchanged = grown - table[11] + table[40]
    expected = naive_ridge(x[[*rows[:11], 40]], y[[*rows[:11], 40]], 0.0)
    np.testing.assert_allclose(ridge(exchanged, 12)[0], expected, atol=1e-9)
    assert moment_sums(table, np.empty((3, 0), dtype=np.int64)).tolist() == np.zeros((3, 15)).tolist()


def test_the_training_loss_is_the_mean_squared_error_and_noise_adds_its_share() -> None:
    x, y = people()
    rows = np.arange(15)
    sums = moment_sums(moment_table(x, y), rows[None])
    theta = ridge(sums, 15)
    inputs = np.column_stack([np.ones(15), x[rows]])
    expected = np.mean((inputs @ theta[0] - y[rows]) ** 2)
    assert training_loss(sums, 15, theta)[0] == pytest.approx(expected, rel=1e-9)
    noisy = theta + 0.3 * np.random.default_rng(0).standard_normal((200_000, 4))
    simulated = np.mean((inputs @ noisy.T - y[rows, None]) ** 2)
    assert expected + 0.3**2 * mean_square_inputs(sums, 15, 3)[0] == pytest.approx(simulated, rel=0.01)


@pytest.mark.parametrize("n_records", [7, 40])
def test_draws_are_uniform_ordered_sets_of_others(n_records: int) -> None:
    """Seven records: by sorting; forty: by redrawing. Every ordered pair is equally likely."""
    draws = draw_others(np.random.default_rng(1), n_records, 4, 60_000, 3)
    assert draws.min() >= 0 and draws.max() < n_records and not (draws == 4).any()
    assert all((draws[:, i] != draws[:, j]).all() for i, j in ((0, 1), (0, 2), (1, 2)))
    pairs = np.zeros((n_records, n_records))
    np.add.at(pairs, (draws[:, 0], draws[:, 2]), 1)
    possible = (np.arange(n_records)[:, None] != np.arange(n_records)) & (pairs.sum(1) > 0)[:, None]
    possible &= (pairs.sum(0) > 0)[None]
    expected = 60_000 / ((n_records - 1) * (n_records - 2))
    assert possible.sum() == (n_records - 1) * (n_records - 2)
    chi_square = ((pairs[possible] - expected) ** 2 / expected).sum()
    degrees = possible.sum() - 1
    assert abs(chi_square - degrees) < 4 * np.sqrt(2 * degrees)


def test_the_first_of_a_draw_are_a_uniform_set_too() -> None:
    draws = draw_others(np.random.default_rng(2), 50, 0, 20_000, 10)
    for size in (1, 10):
        share = np.bincount(draws[:, :size].reshape(-1), minlength=50)[1:] / (20_000 * size)
        assert np.abs(share - 1 / 49).max() < 5 * np.sqrt(1 / 49 / (20_000 * size))


def test_mistakes_are_named() -> None:
    x, y = people()
    with pytest.raises(InputError, match=r"features \(60, 3\) and targets \(59,\)"):
        moment_table(x, y[1:])
    with pytest.raises(InputError, match="finite"):
        moment_table(np.where(x > 2, np.nan, x), y)
    with pytest.raises(InputError, match="size=60"):
        draw_others(np.random.default_rng(0), 60, 0, 5, 60)
    with pytest.raises(InputError, match="weight=-1"):
        ridge(moment_sums(moment_table(x, y), np.arange(9)[None]), 9, -1.0)
