"""A user's table as it is: estimators get its rows with the columns and types that the user gave.

pandas is not imported for a table of the user's: whoever passes an object of pandas has imported it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.errors import InputError
from leakscope.frames.columns import PlainColumn, from_array, from_pandas, from_polars
from leakscope.frames.content import exact_texts, pandas_content, plain_array, polars_content
from leakscope.frames.delivery import delivered

Kind = Literal["pandas", "polars", "array", "sparse"]


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of pandas or polars, one column of these, an array or a sparse matrix; one row per record.

    The pandas index is not part of it: an estimator sees rows that are numbered from 0.

    Attributes:
        data: what the user gave.
        kind: what it is of.
        is_encoded: it holds the features of the records, with NaN where numbers are missing.
        is_of_file: it was read from a file, so estimators get it in the package that they most likely expect.
    """

    data: Any
    kind: Kind
    is_encoded: bool = False
    is_of_file: bool = False

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @property
    def names(self) -> tuple[str, ...]:
        """One per column; columns of an array are numbered, and levels of names are joined by points."""
        if self._is_vector:
            return (str(getattr(self.data, "name", None) or "feature 0"),)
        if self.kind in ("pandas", "polars"):
            return tuple(map(_name, self.data.columns))
        return tuple(f"feature {number}" for number in range(self.data.shape[1]))

    @property
    def nbytes(self) -> int:
        """Memory that it takes, except for texts and other objects of Python."""
        if self.kind == "pandas":
            return int(np.sum(self.data.memory_usage(index=False)))
        if self.kind == "polars":
            return int(self.data.estimated_size())
        return int(self.data.data.nbytes)

    def rows(self, index: IntArray | None = None) -> Any:
        """A copy of these rows, or of all, of the same kind; its user may change it."""
        if self.is_of_file:
            return delivered(self.data if index is None else self.data[index])
        if index is None:
            return self.data.clone() if self.kind == "polars" else self.data.copy()
        if self.kind == "pandas":
            return self.data.iloc[index].reset_index(drop=True)
        return self.data[index]

    def mixed(self, donors: IntArray, replaced: BoolArray) -> Any:
        """All rows, some values of which are those of other records; of the same kind.

        Args:
            donors: int64 (records,), the record that values of each row come from where they are replaced.
            replaced: bool (records, columns).
        """
        index = np.where(replaced, donors[:, None], np.arange(len(self))[:, None])
        if self._is_vector:
            return self.rows(index[:, 0])
        if self.kind == "array":
            return np.take_along_axis(self.data, index, axis=0)
        if self.kind == "sparse":
            return (self.data.multiply(~replaced) + self.data[donors].multiply(replaced)).tocsr()
        if self.kind == "polars":
            columns = [self.data.to_series(at)[index[:, at]] for at in range(len(self.names))]
            mixed = self.data.with_columns(columns)
            return delivered(mixed) if self.is_of_file else mixed
        rows = self.data.copy()
        for at in range(len(self.names)):
            rows.isetitem(at, self.data.iloc[:, at].take(index[:, at]).array)
        return rows

    def take(self, index: IntArray) -> Frame:
        """The table of these rows."""
        return replace(self, data=self.data[index] if self.is_of_file else self.rows(index))

    def without(self, columns: Sequence[str]) -> Frame:
        """The table without these columns."""
        left = [at for at, name in enumerate(self.names) if name not in columns]
        if len(left) == len(self.names):
            return self
        data = self.data.iloc[:, left] if self.kind == "pandas" else self.data[:, left]
        return replace(self, data=data)

    def column(self, at: int) -> PlainColumn:
        """A column in plain types; `at` counts columns."""
        name = self.names[at]
        if self.kind == "pandas":
            return from_pandas(name, self.data if self._is_vector else self.data.iloc[:, at])
        if self.kind == "polars":
            return from_polars(name, self.data if self._is_vector else self.data.to_series(at))
        if self.kind == "sparse":
            return from_array(name, self.data[:, [at]].toarray()[:, 0])
        return from_array(name, self.data if self._is_vector else self.data[:, at])

    def content(self) -> list[AnyArray]:
        """Plain arrays in which different tables differ, also by types, names and order of columns."""
        if self.kind == "sparse":
            rows = self.data.tocsr().sorted_indices()
            shape = np.array([type(self.data).__name__, str(self.data.shape)])
            return [shape, rows.data, rows.indices, rows.indptr]
        if self.kind == "array" and self.data.dtype.kind not in "OT":
            return [np.array(["array", self.data.dtype.str]), plain_array(np.ascontiguousarray(self.data))]
        head = [self.kind, str(self.data.shape), *self.names, *map(str, self._types())]
        columns = [self._content(at) for at in range(len(self.names))]
        return [np.array(head, dtype=np.str_), *(array for column in columns for array in column)]

    def row_codes(self) -> AnyArray:
        """Numbers (records, columns) that are equal exactly where two records have equal values."""
        if self.kind == "array" and self.data.ndim == 2 and self.data.dtype.kind in "biuf":
            return np.asarray(self.data)
        return np.stack([self.column(at).codes() for at in range(len(self.names))], axis=1)

    @property
    def _is_vector(self) -> bool:
        return len(self.data.shape) == 1

    def _content(self, at: int) -> list[AnyArray]:
        if self.kind == "array":
            return [exact_texts((self.data if self._is_vector else self.data[:, at]).tolist())]
        if self.kind == "pandas":
            return pandas_content(self.data if self._is_vector else self.data.iloc[:, at])
        return polars_content(self.data if self._is_vector else self.data.to_series(at))

    def _types(self) -> list[object]:
        return list(self.data.dtypes) if hasattr(self.data, "columns") else [self.data.dtype]


def is_table(value: object) -> bool:
    """True for what users pass as a table by mistake, where records are wanted."""
    is_frame = hasattr(value, "iloc") or type(value).__module__.partition(".")[0] == "polars"
    return is_frame or isinstance(value, np.ndarray | tuple | list)


def frame_of(table: Any, what: str = "X") -> Frame:
    """The table that a user gave, as it is.

    Raises:
        InputError: it is no table; says what to give instead.
    """
    package, kind = type(table).__module__.partition(".")[0], type(table).__name__
    if package == "polars" and kind in ("DataFrame", "Series"):
        return _checked(Frame(table, "polars"), what)
    if kind == "LazyFrame":
        raise InputError(f"{what} is a LazyFrame; give {what}.collect()")
    if hasattr(table, "iloc") and hasattr(table, "reset_index"):  # also of packages that extend pandas
        return _checked(Frame(table.reset_index(drop=True), "pandas"), what)
    if hasattr(table, "tocsr"):
        return _checked(Frame(table.tocsr(), "sparse"), what)
    if isinstance(table, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array; give {what}.filled(numpy.nan)")
    if isinstance(table, list | tuple):
        table = _array_of_list(table, what)
    if not isinstance(table, np.ndarray):
        remedy = f"pandas.DataFrame({what})" if isinstance(table, dict) else "a DataFrame or a numpy array"
        raise InputError(f"{what} is {kind}; give {remedy}")
    return _checked(Frame(np.asarray(table), "array"), what)


def _array_of_list(rows: Sequence[Any], what: str) -> AnyArray:
    if rows and isinstance(rows[0], dict):
        raise InputError(
            f"{what} is a list of dicts; give pandas.DataFrame({what}) or polars.DataFrame({what})"
        )
    if rows and isinstance(rows[0], str):
        return np.array(rows, dtype=object)
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise InputError(f"{what} is a list of rows of different lengths; give a DataFrame") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} is a list that holds more than numbers; give a DataFrame")
    return array


def _checked(frame: Frame, what: str) -> Frame:
    shape = frame.data.shape
    if frame.kind == "array" and frame.data.dtype.kind not in "biufOUTMm":
        raise InputError(f"{what} has type {frame.data.dtype}; give numbers, texts or a DataFrame")
    if not shape or not shape[0]:
        raise InputError(f"{what} has no rows; give at least two records of different classes")
    if 0 in shape:
        raise InputError(f"{what} has no columns; give at least one")
    names = frame.names if len(shape) <= 2 else ()
    repeated = sorted(name for name, number in Counter(names).items() if number > 1)
    if repeated:
        raise InputError(
            f"{what} has several columns called {', '.join(map(repr, repeated))}; rename or drop all but one"
        )
    return frame


def _name(column: object) -> str:
    return ".".join(map(str, column)) if isinstance(column, tuple) else str(column)
