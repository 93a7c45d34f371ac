"""Which class each column of a table of predictions is about, and which class each record has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.data.columns import listed
from leakscope.data.prediction_roles import ModelColumns
from leakscope.disk.string_arrays import distinct
from leakscope.errors import InputError

_POSITIVE = {
    frozenset({"0", "1"}): "1",
    frozenset({"-1", "1"}): "1",
    frozenset({"false", "true"}): "true",
    frozenset({"f", "t"}): "t",
    frozenset({"no", "yes"}): "yes",
    frozenset({"n", "y"}): "y",
    frozenset({"negative", "positive"}): "positive",
    frozenset({"neg", "pos"}): "pos",
}
"""Which of two labels a single column of probabilities is about, where its name does not say so."""
_SHOWN = 6


class TrueClasses(NamedTuple):
    """The labels of all records.

    Attributes:
        names: the distinct labels as texts, in order: numbers by size, texts by the alphabet.
        codes: int64 (records,), the place of each record's label among them.
        column: where they are from, for messages.
    """

    names: tuple[str, ...]
    codes: IntArray
    column: str


class ClassOrder(NamedTuple):
    """The classes of a model.

    Attributes:
        names: of class 0, 1, ...; of a single column: the other class, and the one the column is about.
        is_assumed: true where no name says which column is which class.
    """

    names: tuple[str, ...]
    is_assumed: bool


def true_classes(values: AnyArray, column: str) -> TrueClasses:
    """Labels of any type as classes."""
    if values.dtype.kind == "U":
        texts = distinct(values)
        return TrueClasses(tuple(map(str, texts.names)), texts.codes.astype(np.int64), column)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        at = int(np.argmax(~np.isfinite(values)))
        raise InputError(f"label {column!r} is NaN or infinite (first: row-{at}); drop or fill those rows")
    numbers, codes = np.unique(values, return_inverse=True)
    if values.dtype.kind == "f" and (numbers != np.round(numbers)).any():
        first = float(numbers[numbers != np.round(numbers)][0])
        raise InputError(
            f"label {column!r} holds {first:g}, which is not a class; for a regression, name the column of "
            "predicted numbers with --prediction"
        )
    names = [str(number).lower() if values.dtype.kind == "b" else f"{number:.0f}" for number in numbers]
    return TrueClasses(tuple(names), codes.reshape(-1).astype(np.int64), column)


def class_order(model: ModelColumns, labels: TrueClasses, given: Sequence[str]) -> ClassOrder:
    """The classes in the order of the columns.

    Raises:
        InputError: names and labels do not fit; says how to name the classes.
    """
    if len(model.names) == 1:
        return _two_classes(model, labels, given)
    if given and len(given) != len(model.names):
        raise InputError(
            f"classes={list(given)}: give as many as there are columns ({listed(model.names, _SHOWN)})"
        )
    names = _matched(labels, given or model.classes)
    if names is not None:
        return ClassOrder(names, False)
    says_nothing = not given and (model.is_numbered or model.classes == model.names)
    if says_nothing and len(labels.names) == len(model.names):
        return ClassOrder(labels.names, True)
    raise InputError(
        f"label column {labels.column!r} holds {_first_unknown(labels, given or model.classes)!r}, which is "
        f"none of the classes of the columns {listed(model.names, _SHOWN)} "
        f"({listed(given or model.classes, _SHOWN)}); "
        "name the columns prob_CLASS, or give the classes of the columns in their order with --classes"
    )


def codes_in(order: ClassOrder, labels: TrueClasses) -> IntArray:
    """The class of each record as its number; int64 (records,)."""
    number = {name: at for at, name in enumerate(order.names)}
    return np.array([number[name] for name in labels.names], dtype=np.int64)[labels.codes]


def check_assumed(order: ClassOrder, scores: AnyArray, codes: IntArray, columns: Sequence[str]) -> None:
    """Refuses an assumed order of classes with which the model is right less often than by chance.

    Args:
        order: the classes.
        scores: (records, classes), the larger the likelier.
        codes: (records,), the true classes.
        columns: of the outputs, for the message.
    """
    if not order.is_assumed or not len(codes):
        return
    accuracy = float(np.mean(scores.argmax(axis=1) == codes))
    if accuracy >= 1 / len(order.names):
        return
    if len(columns) == 1:
        raise InputError(
            f"{columns[0]!r}, read as the output for {order.names[1]!r}, is right for {accuracy:.0%} of the "
            f"records; if it is that for {order.names[0]!r}, add --classes {order.names[0]}"
        )
    raise InputError(
        f"the columns {listed(columns, _SHOWN)}, read as the classes {listed(order.names, _SHOWN)}, are "
        f"right for {accuracy:.0%} of the records, worse than chance; give the classes in the order of "
        "the columns with --classes"
    )


def _two_classes(model: ModelColumns, labels: TrueClasses, given: Sequence[str]) -> ClassOrder:
    """The classes of a binary classifier with one column: the other one, and that of the column."""
    column = model.names[0]
    _check_two_labels(model, labels)
    if len(given) > 2:
        raise InputError(f"classes={list(given)}: name the class that {column!r} is about")
    if len(given) == 2 and set(given) == set(labels.names):
        return ClassOrder(tuple(given), False)
    named = _matched(labels, given or model.classes, partial=True)
    if named is not None:
        (positive,) = named
        return ClassOrder(_with_last(labels.names, positive), False)
    if given:
        raise InputError(f"classes={list(given)}: choose one of the labels: {', '.join(labels.names)}")
    if model.is_numbered and int(model.classes[0]) in (0, 1):
        return ClassOrder(_with_last(labels.names, labels.names[int(model.classes[0])]), True)
    lower = {name.lower(): name for name in labels.names}
    known = _POSITIVE.get(frozenset(lower))
    if known is None:
        first, second = labels.names
        raise InputError(
            f"{column!r} is about one of the classes {first!r} and {second!r}, and its name does not say "
            f"which; add for example --classes {second}"
        )
    return ClassOrder(_with_last(labels.names, lower[known]), True)


def _check_two_labels(model: ModelColumns, labels: TrueClasses) -> None:
    column = model.names[0]
    if len(labels.names) == 1:
        raise InputError(
            f"label column {labels.column!r} holds a single class ({labels.names[0]}), which cannot be "
            f"audited with one column of {model.kind}, {column!r}; add records of the other class, or give "
            "one column per class, named prob_CLASS or listed in --prob"
        )
    if len(labels.names) != 2:
        many = f"has {len(labels.names):,} classes ({listed(labels.names, _SHOWN)})"
        raise InputError(
            f"label column {labels.column!r} {many}, but there is one column of {model.kind}, {column!r}; "
            "give one per class, named prob_CLASS or listed in --prob"
        )


def _with_last(names: Sequence[str], last: str) -> tuple[str, ...]:
    return (*(name for name in names if name != last), last)


def _matched(labels: TrueClasses, classes: Sequence[str], partial: bool = False) -> tuple[str, ...] | None:
    """The classes, called as the labels are; None where a label (or, if partial, a class) has no partner."""
    for same in (str, str.lower, _without_leading_zeros):
        spelled = {same(name): name for name in labels.names}
        known = {same(name) for name in classes}
        is_whole = known <= set(spelled) if partial else set(spelled) <= known
        if known and is_whole and len(known) == len(classes) and len(spelled) == len(labels.names):
            return tuple(spelled.get(same(name), name) for name in classes)
    return None


def _without_leading_zeros(text: str) -> str:
    """Classes 0 to 11 may have columns that are called 00 to 11."""
    return text.lstrip("0") or "0" if text.isdecimal() else text


def _first_unknown(labels: TrueClasses, classes: Sequence[str]) -> str:
    return next((name for name in labels.names if name not in classes), labels.names[0])
