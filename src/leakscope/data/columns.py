"""From raw columns of a user's table to labels and ids, with errors that name column and row.

Columns arrive as plain arrays: bool, integer, float or text. Rows are named as the default ids are:
the first is `row-0`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray
from leakscope.data.text_values import CODE
from leakscope.disk.string_arrays import are_unique, distinct
from leakscope.errors import InputError, did_you_mean

Task = Literal["auto", "classification", "regression"]
TASKS = ("auto", "classification", "regression")
_LOST_SHARE = 1e-4  # of the range of numeric labels, by rounding to float32
MANY_CLASSES = 100
_SHOWN = 3


class Roles(NamedTuple):
    """What the columns, or arrays, of a file are for; see `leakscope.data.files.read_table`."""

    label: str | None
    id: str | None
    groups: tuple[str, ...]
    features: tuple[str, ...] | None
    task: Task

    @property
    def read_as_text(self) -> tuple[str, ...]:
        """Ids and groups, which are text even where they look like numbers: 007 is not 7."""
        others = {self.label, *(self.features or ())}
        return tuple(name for name in (self.id, *self.groups) if name is not None and name not in others)


class EncodedLabels(NamedTuple):
    """Labels as `Records` wants them."""

    labels: AnyArray  # int64 class indices or float32 targets, (records,)
    class_names: tuple[str, ...]  # empty for a regression target


def require_names(what: str, wanted: Collection[str], known: Sequence[str]) -> None:
    """Refuse names that are not among the known ones, listing those and the closest."""
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known, after=" ")
            raise InputError(f"{what} {name!r} does not exist; {hint}there are: {listed(known)}")


def encode_labels(values: AnyArray, column: str, task: Task) -> EncodedLabels:
    """Class indices for text, bools and whole numbers; float32 for other numbers, or as `task` says."""
    if values.dtype.kind == "f":
        refuse_where(~np.isfinite(values), f"label {column!r} is NaN or infinite", "drop or fill those rows")
    if task == "regression" or (task == "auto" and _has_fractions(values)):
        return EncodedLabels(_targets(values, column), ())
    return _classes(values, column, task)


def numeric_features(values: AnyArray, column: str, role: str = "feature") -> npt.NDArray[np.float32]:
    """The values as float32, which must all be finite."""
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is refused below
        numbers = values.astype(np.float32)
    bad: BoolArray = np.any(~np.isfinite(numbers.reshape(len(numbers), -1)), axis=1)
    refuse_where(bad, f"{role} {column!r} is NaN, infinite or too large", "drop or fill those rows first")
    return numbers


def unique_ids(ids: AnyArray, column: str) -> npt.NDArray[np.str_]:
    """The ids as texts; refuses ids that name two records."""
    ids = ids.astype(np.str_, copy=False)
    if are_unique(ids):
        return ids
    _, first = np.unique(ids, return_index=True)
    repeated = np.ones(len(ids), dtype=np.bool_)
    repeated[first] = False
    at = int(np.argmax(repeated))
    earlier = int(np.argmax(ids == ids[at]))
    raise InputError(
        f"id column {column!r} is not unique: {str(ids[at])!r} is both row-{earlier} and row-{at} "
        f"({int(repeated.sum())} repeated in all); give each record its own id, or no id column; a "
        "column that says whose record it is, such as patient, is the unit (docs/groups.md)"
    )


@contextmanager
def noting(problems: list[str]) -> Iterator[None]:
    """Notes what is wrong with the input instead of raising it, so that all of it can be said at once."""
    try:
        yield
    except InputError as error:
        problems.append(str(error))


def refuse_where(bad: BoolArray, problem: str, remedy: str) -> None:
    """Raise where any row is bad, naming the first and their number."""
    if bad.any():
        raise InputError(f"{problem} {in_rows(bad)}; {remedy}")


def in_rows(bad: BoolArray) -> str:
    """ "in 3 rows (first: row-7)"; rows are named as the default ids are."""
    n_rows = int(bad.sum())
    return f"in {n_rows:,} row{'s' if n_rows > 1 else ''} (first: row-{int(np.argmax(bad))})"


def _has_fractions(values: AnyArray) -> bool:
    return values.dtype.kind == "f" and bool((values != np.round(values)).any())


def _targets(values: AnyArray, column: str) -> npt.NDArray[np.float32]:
    if values.dtype.kind not in "biuf":
        _refuse_texts(values, column)
    numbers = numeric_features(values, column, "label")
    lost = np.abs(numbers.astype(np.float64) - values).max()
    if lost > _LOST_SHARE * np.ptp(values.astype(np.float64)):
        raise InputError(
            f"label {column!r} varies too little for its size: 32-bit numbers would lose its digits; "
            "subtract its mean first"
        )
    return numbers


def _refuse_texts(values: AnyArray, column: str) -> NoReturn:
    """Says which texts keep a column from being numbers, or that all of it is text."""
    categories, _ = distinct(values)
    texts = [str(category) for category in categories if not _is_number(str(category))]
    if 0 < len(texts) < len(categories):
        where, shown = in_rows(np.isin(values, texts)), listed([*map(repr, texts)], _SHOWN)
        raise InputError(
            f"label {column!r} holds text among numbers {where}: {shown}; drop or fill those rows"
        )
    code = next((str(category) for category in categories if CODE.fullmatch(str(category))), None)
    if code is not None and not texts:
        raise InputError(
            f"label {column!r} is text, because {code!r} has leading zeros; remove the zeros if these are "
            "numbers, or use task='classification'"
        )
    raise InputError(f"label {column!r} is text, which task='regression' cannot use; use 'classification'")


def _classes(values: AnyArray, column: str, task: Task) -> EncodedLabels:
    whole = values.dtype.kind == "f" and not _has_fractions(values)
    whole = whole and float(np.abs(values).max()) < 2**62  # else they stay as they are
    names, labels = _named(values.astype(np.int64) if whole else values)
    if len(names) < 2:
        raise InputError(
            f"all {len(values)} labels in {column!r} are {str(names[0])!r}; "
            "an audit needs at least two classes"
        )
    if task == "auto" and len(names) > max(MANY_CLASSES, len(values) // 2):
        raise InputError(
            f"label {column!r} has {len(names):,} different values in {len(values):,} rows; "
            "is it the right column? Say task='regression' or task='classification'"
        )
    return EncodedLabels(labels.reshape(-1).astype(np.int64), tuple(str(name) for name in names))


def _named(values: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The distinct values in order, and the place of each value among them."""
    if values.dtype.kind == "U":
        return distinct(values)
    names, places = np.unique(values, return_inverse=True)
    return names, places


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def listed(names: Sequence[str], at_most: int = 20) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:at_most])
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most} more"
