"""The signals by name: what each one is computed from, and whether members have high or low values.

A signal is a function of a model's outputs and the label, or queries the model again. Functions are named as
text and imported when a signal is computed, so that knowing the signals needs no torch. A user's own signal
is named "package.module:function"; its function takes `(logits, labels)`, tensors (..., classes) and (...,),
and returns a tensor (...,). For a regression model, `logits` are its outputs (..., 1) and `labels` numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leakscope.array_types import AnyArray
from leakscope.errors import InputError, did_you_mean
from leakscope.user_code import import_object, names_code

Task = Literal["classification", "regression"]
Inputs = Literal[
    "logits", "logits and label", "log_odds", "residual", "residual and label spread", "queries"
]  # fmt: skip
Direction = Literal["high", "low", "none"]

CLASSIFICATION: Task = "classification"
REGRESSION: Task = "regression"
LABEL_ROBUSTNESS, QUERY_LOG_ODDS = "label_robustness", "query_log_odds"
"""The signals that query the model again."""


@dataclass(frozen=True)
class Signal:
    """What there is to know about a signal.

    Attributes:
        name: what settings and banks call it.
        function: "package.module:function" that computes it.
        inputs: what the function takes; "queries": the model itself, which is queried again.
        direction: the values that are typical of members; "none" if there is no such rule.
        task: the models that have it.
        default: whether a bank stores it when no signals are chosen.
    """

    name: str
    function: str
    inputs: Inputs
    direction: Direction
    task: Task = CLASSIFICATION
    default: bool = False

    @property
    def is_own(self) -> bool:
        """True for a signal of the user's own."""
        return names_code(self.name)

    @property
    def compute(self) -> Callable[..., Any]:
        """The function."""
        return _function(self.function)


def _shipped(name: str, inputs: Inputs, direction: Direction, function: str = "", **more: Any) -> Signal:
    return Signal(name, f"leakscope.signals.functions:{function or name}", inputs, direction, **more)


SIGNALS: tuple[Signal, ...] = (
    _shipped("loss", "log_odds", "low", "loss_from_log_odds", default=True),
    _shipped("log_odds", "log_odds", "high", "unchanged", default=True),
    _shipped("true_prob", "log_odds", "high"),
    _shipped("true_logit", "logits and label", "high"),
    _shipped("max_logit", "logits", "high"),
    _shipped("max_prob", "logits", "high"),
    _shipped("entropy", "logits", "low"),
    _shipped("modified_entropy", "logits and label", "low"),
    _shipped("top2_margin", "logits", "high"),
    _shipped("correct", "logits and label", "high", default=True),
    _shipped("gradient_proxy", "logits and label", "low"),
    _shipped("logits", "logits", "none", "unchanged"),
    Signal(LABEL_ROBUSTNESS, "leakscope.signals.queries:label_robustness_of", "queries", "high"),
    Signal(QUERY_LOG_ODDS, "leakscope.signals.queries:query_log_odds_of", "queries", "high"),
    _shipped("loss", "residual", "low", "squared_residual", task=REGRESSION, default=True),
    _shipped("scaled_residual", "residual and label spread", "none", task=REGRESSION, default=True),
)


def task_of(labels: AnyArray) -> Task:
    """The task of models with these labels: classes are integers, numbers to predict are floats."""
    return CLASSIFICATION if labels.dtype.kind in "iub" else REGRESSION


def names_of(task: Task) -> tuple[str, ...]:
    """Names of the shipped signals of a task."""
    return tuple(signal.name for signal in SIGNALS if signal.task == task)


def of_outputs(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the signals that a model's outputs on the records give; others query the model again."""
    return tuple(name for name in names if name not in (LABEL_ROBUSTNESS, QUERY_LOG_ODDS))


def default_signals(task: Task) -> tuple[str, ...]:
    """Names of the signals that a bank stores when none are chosen, sorted."""
    return tuple(sorted(signal.name for signal in SIGNALS if signal.task == task and signal.default))


def find_signal(name: str, task: Task, folder: Path | None = None) -> Signal:
    """The signal of this name.

    Args:
        name: a shipped signal, or "package.module:function".
        task: the models' task.
        folder: where to look for a user's module, besides the current folder.

    Raises:
        InputError: there is no such signal.
    """
    for signal in SIGNALS:
        if (signal.name, signal.task) == (name, task):
            return signal
    if names_code(name):
        function = import_object("signals", name, "my_package.signals:my_signal", folder)
        if not callable(function):
            raise InputError(f"signals={name!r} is not a function of (logits, labels)")
        return Signal(name, name, "logits and label", "none", task)
    known = sorted(names_of(task))
    hint = did_you_mean(name, known, after=" ")
    models = "a classifier" if task == CLASSIFICATION else "a regression model"
    raise InputError(
        f"signals={name!r}: {hint}{models} has {', '.join(known)}; give your own as 'package.module:function'"
    )


def own_functions(names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """A user's own signal -> its function, whose code belongs to the identity of a bank."""
    return {name: _function(name) for name in sorted(names) if names_code(name)}


def file_name(name: str) -> str:
    """The name of the file that a bank stores a signal in; a colon is not allowed in one everywhere."""
    return f"{name.replace(':', '-')}.npy"


def _function(path: str) -> Callable[..., Any]:
    if path.startswith("leakscope."):
        module, _, name = path.partition(":")
        shipped: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return shipped
    own: Callable[..., Any] = import_object("signals", path, "my_package.signals:my_signal")
    return own
