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
from leakscope.types import Records
from leakscope.user_code import import_object, names_code

Task = Literal["classification", "regression", "language"]
Inputs = Literal[
    "logits", "logits and label", "log_odds", "residual", "residual and label spread", "queries", "tokens",
    "tokens and base", "secrets",
]  # fmt: skip
Direction = Literal["high", "low", "none"]

CLASSIFICATION: Task = "classification"
REGRESSION: Task = "regression"
LANGUAGE: Task = "language"
TASKS = (CLASSIFICATION, REGRESSION, LANGUAGE)
LABEL_ROBUSTNESS, QUERY_LOG_ODDS = "label_robustness", "query_log_odds"
"""The signals that query the model again."""
TOKEN_LOG_PROBS = "token_log_probs"
"""The signal of a document that has one number per token."""
SECRET_RANK, BASE_SECRET_RANK = "secret_rank", "base_secret_rank"
"""The signals of documents with planted secrets: of the models, and of their base."""
EXTRACTED, BASE_EXTRACTED = "extracted", "base_extracted"
"""Whether the end of a document is extracted from its beginning: of the models, and of their base."""
_MODELS = {CLASSIFICATION: "a classifier", REGRESSION: "a regression model", LANGUAGE: "a language model"}


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


def _of_documents(name: str, direction: Direction, inputs: Inputs = "tokens", default: bool = True) -> Signal:
    function = "secrets:secret_ranks" if inputs == "secrets" else f"tokens:{name}"
    return Signal(name, f"leakscope.signals.{function}", inputs, direction, LANGUAGE, default)


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
    _of_documents("loss", "low"),
    _of_documents("log_odds", "high"),
    _of_documents("correct", "high"),
    _of_documents("lowest_log_probs", "high"),
    _of_documents("standardized_lowest", "high"),
    _of_documents("zlib_ratio", "low"),
    _of_documents("base_gap", "high", "tokens and base"),
    _of_documents("error_gap", "high", "tokens and base"),
    _of_documents(EXTRACTED, "none"),
    _of_documents(BASE_EXTRACTED, "none", "tokens and base"),
    _of_documents(SECRET_RANK, "none", "secrets", default=False),
    _of_documents(BASE_SECRET_RANK, "none", "secrets", default=False),
    _of_documents("log_prob", "high", default=False),
    _of_documents("log_prob_sum", "high", default=False),
    _of_documents("log_prob_q25", "high", default=False),
    _of_documents("log_prob_q50", "high", default=False),
    _of_documents("log_prob_q75", "high", default=False),
    _of_documents(TOKEN_LOG_PROBS, "none", default=False),
)


def task_of(labels: AnyArray, stored: Iterable[str] = ()) -> Task:
    """The task of models with these labels: classes are integers, numbers to predict are floats.

    Documents have no labels, so language models are known by their signals: a bank stores some that no other
    models have.

    Args:
        labels: of the records.
        stored: names of the models' signals.
    """
    if labels.dtype.kind not in "iub":
        return REGRESSION
    return LANGUAGE if not ONLY_OF_DOCUMENTS.isdisjoint(stored) else CLASSIFICATION


def task_of_records(records: Records) -> Task:
    """The task of models that are trained on these records; text without classes is for language models."""
    return LANGUAGE if records.is_language else task_of(records.labels)


def names_of(task: Task) -> tuple[str, ...]:
    """Names of the shipped signals of a task."""
    return tuple(signal.name for signal in SIGNALS if signal.task == task)


ONLY_OF_DOCUMENTS = frozenset(names_of(LANGUAGE)) - frozenset(names_of(CLASSIFICATION))
"""The signals that language models alone have."""


def of_outputs(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the signals that a model's outputs on the records give; others query the model again."""
    others = (LABEL_ROBUSTNESS, QUERY_LOG_ODDS, SECRET_RANK, BASE_SECRET_RANK)
    return tuple(name for name in names if name not in others)


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
    if names_code(name) and task != LANGUAGE:
        function = import_object("signals", name, "my_package.signals:my_signal", folder)
        if not callable(function):
            raise InputError(f"signals={name!r} is not a function of (logits, labels)")
        return Signal(name, name, "logits and label", "none", task)
    known = sorted(names_of(task))
    hint = did_you_mean(name, known, after=" ")
    own = "" if task == LANGUAGE else "; give your own as 'package.module:function'"
    raise InputError(f"signals={name!r}: {hint}{_MODELS[task]} has {', '.join(known)}{own}")


def own_functions(names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """A user's own signal -> its function, whose code belongs to the identity of a bank."""
    return {name: _function(name) for name in sorted(names) if names_code(name)}


def members_have_low(name: str) -> bool:
    """Whether low values of a signal are typical of members."""
    return any(signal.direction == "low" for signal in SIGNALS if signal.name == name)


def has_one_value(name: str, task: Task) -> bool:
    """Whether a signal of models of this task is one number per record whose order says who is a member."""
    if names_code(name):
        return task != LANGUAGE
    directions = [s.direction for s in SIGNALS if (s.name, s.task) == (name, task) and s.inputs != "queries"]
    return directions in (["high"], ["low"])


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
