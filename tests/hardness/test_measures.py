"""EL2N, TracIn, learning and the loss trace: by hand, by naive loops, and by side."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.hardness.in_out_mean import side_mean
from leakscope.hardness.registry import gradient_measures, measured
from leakscope.hardness.training import (
    early_checkpoint,
    el2n,
    epoch_first_learned,
    forgetting_events,
    loss_trace_spread,
    tracin,
)
from leakscope.types import Design, Signals

RIGHT, WRONG = True, False


def trace(*looks):
    """Correctness of one record in one model; (1, checkpoints, 1)."""
    return np.array(looks)[None, :, None]


def test_a_side_is_averaged_and_an_empty_one_is_nan():
    values = np.array([[1.0, np.nan, 5.0], [3.0, np.inf, 7.0]])
    mask = np.array([[True, False, True], [True, False, False]])
    np.testing.assert_array_equal(side_mean(values, mask), [2, np.nan, 5])
    stacked = np.stack([values, 2 * values], axis=2)
    np.testing.assert_array_equal(side_mean(stacked, mask)[:, 1], [4, np.nan, 10])


def test_models_with_their_own_records_are_refused():
    with pytest.raises(InputError, match="each universe of records separately"):
        measured(Signals({}, (1,), np.zeros(3)), Design(np.ones((2, 3), bool), np.zeros((2, 3), int)))


def test_el2n_by_hand():
    logits = np.log([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    expected = [np.sqrt(0.3**2 + 0.2**2 + 0.1**2), np.sqrt(4 / 9 + 2 / 9)]
    np.testing.assert_allclose(el2n(logits, np.array([0, 2])), expected)
    sure = np.array([[1e4, -1e4], [1e4, -1e4]], dtype=np.float32)
    np.testing.assert_allclose(el2n(sure, np.array([0, 1])), [0, np.sqrt(2)])
    many = np.broadcast_to(logits, (4, 5, 2, 3))
    assert el2n(many, np.array([0, 2])).shape == (4, 5, 2)


def test_early_is_a_tenth_of_training():
    assert early_checkpoint((1, 2, 3, 20)) == 1
    assert early_checkpoint((60,)) == 0
    norms = np.array([[[1.0], [5.0], [9.0]], [[2.0], [7.0], [9.0]]])  # two models, three looks, one record
    for is_in, epochs, expected in (((True, True), (1, 10, 100), 6), ((False, True), (10, 20, 100), 2)):
        assert gradient_measures(norms, np.ones(3), epochs, np.array(is_in)[:, None])["grand"] == expected


def test_tracin_adds_steps_up():
    norms = np.array([[[1.0, 2.0], [3.0, 0.0]], [[0.0, 1.0], [2.0, 1.0]]])
    rates = np.array([0.5, 0.1])
    np.testing.assert_allclose(tracin(norms, rates), [[0.5 + 0.9, 2.0], [0.4, 0.6]])
    mask = np.array([[True, False], [True, True]])
    np.testing.assert_allclose(gradient_measures(norms, rates, (1, 2), mask)["tracin"], [0.9, 0.6])
    with pytest.raises(InputError, match="one for each of the 2"):
        tracin(norms, np.ones(3))


def test_tracin_is_what_gradient_descent_does():
    # One record with loss (theta - 1)^2 / 2: small steps lower the loss by lr * gradient^2 each.
    theta, rate, losses, norms = 0.0, 1e-3, [], []
    for _ in range(50):
        losses.append((theta - 1) ** 2 / 2)
        norms.append(abs(theta - 1))
        theta -= rate * (theta - 1)
    fallen = losses[0] - (theta - 1) ** 2 / 2
    assert tracin(np.array(norms)[None, :, None], np.full(50, rate))[0, 0] == pytest.approx(fallen, rel=1e-3)


def test_when_a_record_is_first_learned():
    epochs = (1, 5, 9)
    assert epoch_first_learned(trace(WRONG, RIGHT, WRONG), epochs) == 5
    assert epoch_first_learned(trace(RIGHT, WRONG, WRONG), epochs) == 1
    assert epoch_first_learned(trace(WRONG, WRONG, WRONG), epochs) == 13  # later than all that were


@pytest.mark.parametrize(
    ("looks", "events"),
    [
        ((RIGHT, RIGHT, RIGHT, RIGHT), 0),
        ((WRONG, WRONG, RIGHT, RIGHT), 0),
        ((RIGHT, WRONG, RIGHT, WRONG), 2),  # the most there is room for
        ((WRONG, RIGHT, WRONG, WRONG), 1),
        ((WRONG, WRONG, WRONG, WRONG), 3),  # above all that were ever right
    ],
)
def test_forgetting_by_hand(looks, events):
    assert forgetting_events(trace(*looks)) == events


def of_signal(name, values, is_in):
    """The measure of one record, from models that were trained on it or not."""
    epochs = tuple(range(1, values.shape[1] + 1))
    measures = measured(Signals({name: values}, epochs, np.zeros(1)), Design(np.array(is_in)[:, None]))
    return measures["forgetting_events" if name == "correct" else "loss_trace_spread"]


def test_forgetting_is_counted_where_it_was_learned():
    correct = np.array([[[True], [False]], [[True], [True]]])  # the first model forgets
    assert of_signal("correct", correct, [True, False]) == 1
    assert of_signal("correct", correct, [False, True]) == 0
    assert of_signal("correct", correct.astype(np.float32), [True, True]) == 0.5


def test_the_spread_is_of_time_not_of_models():
    steady_but_apart = np.array([[[1.0]] * 5, [[9.0]] * 5])  # (models, checkpoints, records)
    np.testing.assert_array_equal(loss_trace_spread(steady_but_apart), 0)
    falling = np.arange(4, -1, -1.0)[None, :, None]
    assert loss_trace_spread(falling) == 2
    both = np.concatenate([falling, np.zeros((1, 5, 1))])
    assert of_signal("loss", both, [True, False]) == 2
    assert of_signal("loss", both, [True, True]) == 1
