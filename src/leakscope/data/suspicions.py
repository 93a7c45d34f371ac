"""Likely mistakes in a table: said before anything is trained, because no figure shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from leakscope.array_types import AnyArray, FloatArray
from leakscope.data.columns import MANY_CLASSES, listed
from leakscope.data.read_column import ReadColumn

_FEWEST_ROWS = 20  # fewer agree by chance
_ROWS_PER_VALUE = 10  # of a column that is finer than the label, likewise
_ID_NAME = re.compile(r"(^|.*[ _.-])(id|ids|key|uuid|guid|index|nr|no|number|unnamed: ?0)", re.IGNORECASE)
_PERSON_NAME = re.compile(r"(.*[ _.-])?(id|ids|uuid|guid)", re.IGNORECASE)
_SHOWN = 6
_SAME_NUMBER = 1 - 1e-6  # correlation of a number with itself, as float32


def likely_mistakes(
    columns: Sequence[ReadColumn], labels: AnyArray, class_names: Sequence[str]
) -> tuple[str, ...]:
    """What looks wrong with features and labels, one sentence each."""
    n_classes = len(class_names)
    mistakes = [*alike("the label", class_names), *_single_records(labels, class_names)]
    for column in columns:
        mistakes += [*column.warnings, *_of_column(column, labels, n_classes)]
        if column.encoded.is_text:
            prefix = f"{column.reading.name}="
            mistakes += alike(
                repr(column.reading.name), (n.removeprefix(prefix) for n in column.encoded.names)
            )
    if n_classes > MANY_CLASSES:
        n_fewest = int(np.bincount(labels, minlength=n_classes).min())
        mistakes.append(
            f"the label has {n_classes:,} classes, the smallest with {n_fewest:,} records; is it the right "
            "column, or a number to predict (task='regression')?"
        )
    return tuple(mistakes)


def _single_records(labels: AnyArray, class_names: Sequence[str]) -> Iterator[str]:
    """Classes of one record; where classes are very many, another line says how small the smallest is."""
    if not class_names or len(class_names) > MANY_CLASSES or len(labels) < _FEWEST_ROWS:
        return
    counts = np.bincount(labels, minlength=len(class_names))
    single = [repr(name) for name, n_records in zip(class_names, counts, strict=True) if n_records == 1]
    if single:
        which = f"class {single[0]} has" if len(single) == 1 else f"the classes {listed(single, _SHOWN)} have"
        each = "" if len(single) == 1 else " each"
        yield (
            f"{which} a single record{each}; a model that is not trained on it never sees its class: merge "
            "it with another class, or leave it out"
        )


def alike(what: str, texts: Iterable[str]) -> Iterator[str]:
    """Texts that differ only in spaces or in upper and lower case: probably one value, written twice."""
    first: dict[str, str] = {}
    for text in texts:
        other = first.setdefault(" ".join(text.split()).casefold(), text)
        if other != text:
            yield (
                f"{what} has the values {other!r} and {text!r}, which differ only in spaces or in upper and "
                "lower case; write them alike if they mean the same"
            )
            return


def _of_column(column: ReadColumn, labels: AnyArray, n_classes: int) -> Iterator[str]:
    reading, numbers = column.reading, column.encoded.numbers
    name, n = repr(reading.name), len(labels)
    if reading.missing == n:
        yield f"{name} has no value in any row; leave it out"
    elif _is_constant(column):
        yield f"{name} is the same in every row; leave it out"
    elif n < _FEWEST_ROWS:
        return
    elif reading.kind == "number" and _counts_rows(numbers):
        yield f"{name} counts the rows; as a feature it tells a model which record it sees: leave it out"
    elif _is_identifier(column, n):
        yield f"{name} looks like an identifier: every row has its own value; name it as the ids"
    elif _repeats_identifiers(column, n):
        yield (
            f"{name} is called like an identifier, but its values repeat; leave it out, or name it as a "
            "group if several records belong to one person"
        )
    elif _is_label(column, labels, n_classes):
        yield f"{name} determines the label in every row; is it the label, or known only afterwards?"


def _is_constant(column: ReadColumn) -> bool:
    if column.reading.kind in ("free text", "object") or column.reading.missing:
        return False
    return bool((column.encoded.numbers == column.encoded.numbers[0]).all())


def _counts_rows(numbers: AnyArray) -> bool:
    return bool((np.diff(numbers) == 1).all())


def _is_identifier(column: ReadColumn, n_rows: int) -> bool:
    reading = column.reading
    if reading.kind == "object":
        return False
    if reading.kind in ("free text", "text", "category"):
        return reading.values == n_rows and not _is_prose(column)
    numbers = column.encoded.numbers
    is_named = _ID_NAME.fullmatch(reading.name) is not None
    whole = is_named and not reading.missing and bool((numbers == np.round(numbers)).all())
    return whole and len(np.unique(numbers)) == n_rows


def _repeats_identifiers(column: ReadColumn, n_rows: int) -> bool:
    """Few rows per value: not a kind of thing, such as a shop_id, but a person with several records."""
    if _PERSON_NAME.fullmatch(column.reading.name.strip()) is None:
        return False
    numbers = column.encoded.numbers
    n_values = len(np.unique(numbers))
    return bool((numbers == np.round(numbers)).all()) and n_values * _ROWS_PER_VALUE > n_rows


def _is_prose(column: ReadColumn) -> bool:
    """Texts of very different lengths are written by people, not counted by a machine."""
    lengths = column.encoded.numbers
    return column.reading.kind == "free text" and float(lengths.std()) > 0.25 * float(lengths.mean())


def _is_label(column: ReadColumn, labels: AnyArray, n_classes: int) -> bool:
    numbers: FloatArray = np.nan_to_num(column.encoded.numbers.astype(np.float64), nan=np.inf)
    if labels.dtype.kind == "f":
        spread = float(np.std(numbers)) * float(np.std(labels)) if np.isfinite(numbers).all() else 0.0
        return spread > 0 and abs(float(np.corrcoef(numbers, labels)[0, 1])) > _SAME_NUMBER
    values, places = np.unique(numbers, return_inverse=True)
    is_by_chance = len(values) > len(np.unique(labels)) and _ROWS_PER_VALUE * len(values) > len(labels)
    if len(values) < 2 or is_by_chance:
        return False
    return len(np.unique(places * n_classes + labels)) == len(values)
