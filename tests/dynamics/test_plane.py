import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakscope.dynamics.plane import (
    Trajectories,
    cells,
    encoding_speed,
    net_displacement,
    path_length,
    spatial_entropy,
    trajectories,
)
from leakscope.errors import InputError
from tests.dynamics.banks import decisions_of


def test_states_are_shares_of_models_counted_one_by_one():
    rng = np.random.default_rng(0)
    is_called, in_mask = rng.random((7, 3, 20)) < 0.6, rng.random((7, 20)) < 0.5
    in_mask[:, 0], in_mask[:, 1] = True, False
    on_plane = trajectories(decisions_of(is_called), in_mask)
    for record in range(2, 20):
        seen = in_mask[:, record]
        for checkpoint in range(3):
            says = is_called[:, checkpoint, record]
            expected = (says[~seen].mean(), says[seen].mean())
            np.testing.assert_allclose(on_plane.states[checkpoint, record], expected)
    assert np.isnan(on_plane.states[:, :2]).all()
    np.testing.assert_array_equal(on_plane.is_defined, np.arange(20) > 1)
    assert on_plane.defined().states.shape == (3, 18, 2)


def test_without_a_record_on_both_sides_there_is_no_plane():
    on_plane = trajectories(decisions_of(np.ones((3, 1, 4), bool)), np.ones((3, 4), bool))
    with pytest.raises(InputError, match="no record has both"):
        on_plane.defined()


@given(st.integers(1, 60), st.integers(1, 30))
def test_cells_agree_with_whole_numbers(n, side):
    counts = np.stack(np.meshgrid(np.arange(n + 1), np.arange(n + 1)), axis=-1).reshape(-1, 2)
    parts = np.minimum(counts * side // n, side - 1)
    np.testing.assert_array_equal(cells(counts / n, side), parts[:, 0] * side + parts[:, 1])


def test_a_corner_to_corner_move_is_141_percent():
    there, back = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert net_displacement(np.concatenate([there, back])) == pytest.approx(100 * np.sqrt(2))
    around = np.concatenate([there, back, there])
    assert net_displacement(around) == 0
    assert path_length(around) == pytest.approx(200 * np.sqrt(2))
    assert np.isnan(net_displacement(there))
    assert np.isnan(path_length(there))


def test_entropy_of_one_point_of_two_and_of_a_full_plane():
    one = np.full((1, 8, 2), 0.3)
    two = np.concatenate([one, 1 - one], axis=1)
    middles = (np.arange(4) + 0.5) / 4
    full = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(1, -1, 2)
    np.testing.assert_allclose(spatial_entropy(one), [0])
    np.testing.assert_allclose(spatial_entropy(two), [1])
    np.testing.assert_allclose(spatial_entropy(full, side=4), [4])


def test_entropy_agrees_with_a_histogram():
    states = np.random.default_rng(0).random((3, 500, 2))
    expected = [
        stats.entropy(np.histogram2d(*at.T, bins=20, range=[[0, 1], [0, 1]])[0].ravel(), base=2)
        for at in states
    ]
    np.testing.assert_allclose(spatial_entropy(states), expected)


def test_speed_is_per_epoch_and_mass_moves_less_than_its_parts():
    states = np.zeros((3, 2, 2))
    states[1, 0, 0], states[1, 1, 0] = 0.3, 0.1  # 30 and 10 percent within 2 epochs
    np.testing.assert_allclose(encoding_speed(states, (1, 3, 13)), [10, 2])
    moved = np.random.default_rng(0).random((4, 50, 2))
    steps = np.array([2, 4, 8])
    epochs = (1, 3, 7, 15)
    assert path_length(moved.mean(axis=1)) <= float(encoding_speed(moved, epochs) @ steps)


def test_advantage_is_the_height_above_the_diagonal():
    states = np.array([[[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]])
    np.testing.assert_allclose(Trajectories((1,), states).advantage, [[0.5, 0, -1]])


@pytest.mark.parametrize("n_out", [10, 15])
def test_records_of_equal_advantage_are_equal(n_out):
    """0.3 - 0.1 and 0.9 - 0.7 differ in floating point; ranks would depend on where a record is."""
    n_in = 10
    hits, alarms = np.meshgrid(np.arange(n_in + 1), np.arange(n_out + 1))
    states = np.stack([alarms.ravel() / n_out, hits.ravel() / n_in], axis=-1)[None]
    exact = hits.ravel() * n_out - alarms.ravel() * n_in  # whole numbers
    advantage = Trajectories((1,), states).advantage[0]
    assert len(np.unique(states[0, :, 1] - states[0, :, 0])) > len(np.unique(exact))
    np.testing.assert_array_equal(stats.rankdata(advantage), stats.rankdata(exact))
