"""Signals of saved outputs are those of trained models: the same numbers from numpy and from torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from leakscope.signals.functions import classification_signals, regression_signals
from leakscope.signals.of_arrays import signals_of_logits, signals_of_numbers
from leakscope.signals.registry import CLASSIFICATION, REGRESSION, names_of, of_outputs
from tests.signals.test_classification import EXTREME, naive

NAMES = of_outputs(names_of(CLASSIFICATION))
EXACT = ("correct", "logits", "true_logit", "max_logit")


@pytest.mark.parametrize("scale", [0.1, 3.0, 60.0])
def test_numpy_and_torch_agree_to_the_last_digits(scale: float) -> None:
    rng = np.random.default_rng(0)
    logits = (scale * rng.normal(size=(500, 5))).astype(np.float32)
    labels = rng.integers(0, 5, 500)
    exact = classification_signals(torch.from_numpy(logits).double(), torch.from_numpy(labels), NAMES)
    found = signals_of_logits(logits, labels, NAMES)
    assert list(found) == list(NAMES)
    for name, values in found.items():
        wanted = exact[name].numpy()
        assert values.dtype == (np.bool_ if name == "correct" else np.float32), name
        if name in EXACT:
            np.testing.assert_array_equal(values, wanted.astype(values.dtype), name)
        else:  # half a unit of a float32's last digit, and what torch's softplus leaves out
            np.testing.assert_allclose(values, wanted, rtol=6.1e-8, atol=1e-12, err_msg=name)


def test_every_signal_is_its_definition() -> None:
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(20, 4)), rng.integers(0, 4, 20)
    found = signals_of_logits(logits, labels, NAMES)
    for at in range(20):
        for name, wanted in naive(logits[at], labels[at]).items():
            np.testing.assert_allclose(found[name][at], wanted, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("case", EXTREME)
def test_extreme_logits_give_the_exact_limit(case: str) -> None:
    logits, label, wanted = EXTREME[case]
    found = signals_of_logits(np.array([logits], dtype=np.float32), np.array([label]), NAMES)
    for name, value in wanted.items():
        np.testing.assert_allclose(float(found[name][0]), value, rtol=1e-6, atol=1e-12, err_msg=name)


def test_regression_signals_agree() -> None:
    rng = np.random.default_rng(2)
    outputs, labels = rng.normal(scale=9, size=(2, 300)).astype(np.float32)
    names = names_of(REGRESSION)
    exact = regression_signals(
        torch.from_numpy(outputs).double()[None], torch.from_numpy(labels).double(), 2.5, names
    )
    found = signals_of_numbers(outputs, labels, 2.5, names)
    assert list(found) == list(names)
    for name, values in found.items():
        np.testing.assert_allclose(values, exact[name][0].numpy(), rtol=6.1e-8, err_msg=name)


def own_signal(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits.sum(-1) + labels


def test_a_signal_of_ones_own_gets_tensors() -> None:
    logits, labels = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 0])
    name = f"{__name__}:own_signal"
    assert signals_of_logits(logits, labels, (name,))[name].tolist() == [1, 6, 9]
