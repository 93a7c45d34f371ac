import numpy as np
import pytest
import torch

from leakscope.signals.functions import regression_signals
from leakscope.signals.registry import CLASSIFICATION, REGRESSION, default_signals, find_signal, task_of
from leakscope.signals.residuals import label_spread


def test_regression_signals_are_the_squared_residual_and_the_residual_in_spreads():
    rng = np.random.default_rng(1)
    outputs, targets = rng.normal(size=(2, 5)), rng.normal(size=5)
    names = default_signals(REGRESSION)
    signals = regression_signals(torch.from_numpy(outputs), torch.from_numpy(targets), 2.0, names)
    np.testing.assert_allclose(signals["loss"], (outputs - targets) ** 2)
    np.testing.assert_allclose(np.sinh(signals["scaled_residual"].numpy()) * 6, outputs - targets)
    assert list(signals) == list(names) == ["loss", "scaled_residual"]
    assert [find_signal(name, REGRESSION).direction for name in names] == ["low", "none"]


def test_regression_targets_may_differ_by_model():
    signals = regression_signals(torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]), 1.0, ("loss",))
    assert signals["loss"].tolist() == [[1.0], [9.0]]


def absolute_residual(outputs, targets):
    return (outputs[..., 0] - targets).abs()


def test_a_signal_of_your_own_sees_outputs_and_targets():
    name = f"{__name__}:absolute_residual"
    outputs, targets = torch.tensor([[1.0, 2.0], [5.0, 0.0]]), torch.tensor([2.0, 0.5])
    signals = regression_signals(outputs, targets, 1.0, (name,))
    assert signals[name].tolist() == [[1.0, 1.5], [3.0, 0.5]]


def test_the_spread_is_a_standard_deviation_that_outliers_do_not_change():
    labels = np.random.default_rng(0).normal(scale=3.0, size=20_000)
    assert label_spread(labels) == pytest.approx(3.0, rel=0.03)  # its standard error is 1%
    with_outliers = np.concatenate([labels, [1e9, -1e12]])
    assert label_spread(with_outliers) == pytest.approx(label_spread(labels), rel=1e-3)
    assert label_spread(1000 * labels + 7) == pytest.approx(1000 * label_spread(labels))


def test_the_spread_is_never_zero():
    assert label_spread(np.full(9, 4.0, dtype=np.float32)) == 1.0
    mostly_zero = np.array([0.0] * 9 + [10.0])
    assert label_spread(mostly_zero) == pytest.approx(mostly_zero.std())


def test_labels_tell_the_task():
    assert task_of(np.arange(3)) == CLASSIFICATION
    assert task_of(np.arange(3, dtype=np.float32)) == REGRESSION
