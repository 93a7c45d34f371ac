"""Signals by name, shipped and of one's own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from leakscope.errors import InputError
from leakscope.signals.functions import classification_signals
from leakscope.signals.registry import (
    CLASSIFICATION,
    REGRESSION,
    SIGNALS,
    default_signals,
    file_name,
    find_signal,
    names_of,
    own_functions,
)


def label_margin(logits, labels):
    others = logits.scatter(-1, labels[..., None], -torch.inf)
    return logits.gather(-1, labels[..., None])[..., 0] - others.amax(-1)


def is_first(logits, labels):
    return labels == 0


def one_number(logits, labels):
    return logits.sum()


def an_array(logits, labels):
    return np.zeros(labels.shape)


def test_every_signal_names_a_function_and_is_listed_once() -> None:
    assert len({(signal.name, signal.task) for signal in SIGNALS}) == len(SIGNALS)
    assert all(callable(signal.compute) for signal in SIGNALS)
    assert default_signals(CLASSIFICATION) == ("correct", "log_odds", "loss")
    assert default_signals(REGRESSION) == ("loss", "scaled_residual")
    assert names_of(REGRESSION) == ("loss", "scaled_residual")


def test_a_signal_of_your_own_is_computed_beside_the_shipped_ones() -> None:
    own, flag = f"{__name__}:label_margin", f"{__name__}:is_first"
    logits, labels = torch.tensor([[[2.0, 1.0, 0.0]], [[0.0, 3.0, 1.0]]]).double(), torch.tensor([[0], [2]])
    signals = classification_signals(logits, labels, (own, "correct", flag))
    assert list(signals) == [own, "correct", flag]
    assert signals[own].tolist() == [[1.0], [-2.0]] and signals[own].dtype == torch.float32
    assert signals[flag].tolist() == [[True], [False]]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("one_number", r"returned shape \(\); return a tensor of shape \(2, 5\)"),
        ("an_array", "returned ndarray"),
    ],
)
def test_a_signal_must_be_one_number_per_record(function: str, message: str) -> None:
    logits, labels = torch.zeros(2, 5, 3), torch.zeros(2, 5, dtype=torch.int64)
    with pytest.raises(InputError, match=message):
        classification_signals(logits, labels, (f"{__name__}:{function}",))


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        (
            "logodds",
            CLASSIFICATION,
            "signals='logodds': did you mean 'log_odds'\\? a classifier has correct, ",
        ),
        ("log_odds", REGRESSION, "a regression model has loss, scaled_residual; give your own as 'package"),
        ("no_such_module:signal", CLASSIFICATION, "signals='no_such_module:signal' cannot be imported"),
        (f"{__name__}:CLASSIFICATION", CLASSIFICATION, "is not a function of \\(logits, labels\\)"),
    ],
)
def test_an_unknown_signal_is_one_line_with_a_remedy(name: str, task: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        find_signal(name, task)
    assert "\n" not in str(caught.value)


def test_a_module_in_the_given_folder_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "signal_in_a_folder.py").write_text("def zero(logits, labels):\n    return 0.0 * labels\n")
    signal = find_signal("signal_in_a_folder:zero", CLASSIFICATION, tmp_path)
    assert signal.is_own and signal.compute(None, torch.ones(2)).tolist() == [0.0, 0.0]


def test_the_functions_of_your_own_signals_are_those_that_compute_them() -> None:
    own, other = f"{__name__}:label_margin", "torch.nn.functional:relu"
    functions = own_functions(["loss", own, other])
    assert list(functions) == sorted([own, other])
    assert functions[other] is torch.nn.functional.relu
    assert functions[own].__code__ == label_margin.__code__


def test_file_names_are_valid_everywhere_and_differ() -> None:
    names = ["loss", "a.b:c", "a:b.c", "a:b"]
    assert [file_name(name) for name in names] == ["loss.npy", "a.b-c.npy", "a-b.c.npy", "a-b.npy"]
