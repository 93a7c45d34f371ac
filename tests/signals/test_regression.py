import numpy as np
import torch
from scipy.stats import norm

from leakscope.signals.functions import regression_signals
from leakscope.signals.registry import REGRESSION, default_signals, find_signal


def test_regression_signals_are_the_squared_residual_and_its_gaussian_log_density():
    rng = np.random.default_rng(1)
    outputs, targets, sd = rng.normal(size=(2, 5)), rng.normal(size=5), np.array([0.3, 2.0])
    names = default_signals(REGRESSION)
    signals = regression_signals(*map(torch.from_numpy, (outputs, targets, sd)), names)
    np.testing.assert_allclose(signals["loss"], (outputs - targets) ** 2)
    np.testing.assert_allclose(signals["log_density"], norm.logpdf(outputs, targets, sd[:, None]))
    assert list(signals) == list(names) == ["log_density", "loss"]
    assert [find_signal(name, REGRESSION).direction for name in names] == ["high", "low"]


def test_regression_targets_may_differ_by_model():
    outputs = torch.zeros(2, 1)
    signals = regression_signals(outputs, torch.tensor([[1.0], [3.0]]), torch.ones(2), ("loss",))
    assert signals["loss"].tolist() == [[1.0], [9.0]]


def absolute_residual(outputs, targets):
    return (outputs[..., 0] - targets).abs()


def test_a_signal_of_your_own_sees_outputs_and_targets():
    name = f"{__name__}:absolute_residual"
    outputs, targets = torch.tensor([[1.0, 2.0], [5.0, 0.0]]), torch.tensor([2.0, 0.5])
    signals = regression_signals(outputs, targets, torch.ones(2), (name,))
    assert signals[name].tolist() == [[1.0, 1.5], [3.0, 0.5]]
