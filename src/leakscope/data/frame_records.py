"""Records from a table in memory: a DataFrame of pandas or polars, an array, a sparse matrix.

Estimators get the table's rows as they are. Networks, checks and previews get features that are made of it by
the rules of `read_column`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray
from leakscope.data.array_records import array_features
from leakscope.data.column_file import group_of, label_values, texts_of
from leakscope.data.columns import (
    TASKS,
    EncodedLabels,
    Task,
    encode_labels,
    noting,
    refuse_where,
    require_names,
    unique_ids,
)
from leakscope.data.read_column import ReadColumn, read_column
from leakscope.data.suspicions import likely_mistakes
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError
from leakscope.frames.columns import PlainColumn
from leakscope.frames.frame import Frame, frame_of
from leakscope.frames.reading import TableReading
from leakscope.types import Records

MOST_DENSE_BYTES = 1 << 30
"""Of a sparse matrix, made dense for the checks."""


class FrameRoles(NamedTuple):
    """What belongs to a table: names of its columns, or values of their own, one per row.

    Attributes:
        label: the labels.
        ids: unique ids; None: rows are numbered.
        groups: to report risk for: names of columns, or name -> values.
        features: the columns to use; None: all but label and ids.
        task: see `encode_labels`.
        name: of the records, for the report.
        unit: the column that says whose record it is, which is a group and no feature; None: there is none.
    """

    label: Any
    ids: Any = None
    groups: Any = ()
    features: tuple[str, ...] | None = None
    task: Task = "auto"
    name: str = "table"
    unit: str | None = None


def frame_records(table: Any, roles: FrameRoles) -> Records:
    """The records of a table; see `leakscope.data.files.read_table`.

    Raises:
        InputError: names every column that cannot be used, or what does not belong to the table.
    """
    if roles.task not in TASKS:
        raise InputError(f"task={roles.task!r} must be one of {', '.join(TASKS)}")
    whole = frame_of(table)
    encoded, ids, groups = _people(whole, table, roles)
    named = [role for role in (roles.label, roles.ids) if isinstance(role, str)]
    named += [roles.unit] if roles.unit in whole.names and roles.unit not in (roles.features or ()) else []
    if len(whole.data.shape) > 2:
        return Records(
            array_features("X", whole.data), encoded.labels, ids, roles.name, groups, encoded.class_names
        )
    frame = _features_of(whole, named, roles.features)
    return _records(frame, encoded, ids, groups, roles.name)


def _people(
    whole: Frame, table: Any, roles: FrameRoles
) -> tuple[EncodedLabels, npt.NDArray[np.str_], dict[str, npt.NDArray[np.str_]]]:
    """Labels, ids and groups; everything wrong with them is said at once."""
    problems: list[str] = []
    with noting(problems):
        label = _values(whole, table, roles.label, "y")
        encoded = encode_labels(label_values(label.series.alias(label.name)), label.name, roles.task)
    with noting(problems):
        ids = _ids(whole, table, roles.ids)
    with noting(problems):
        groups = _groups(whole, table, roles.groups)
        if isinstance(roles.unit, str) and roles.unit not in groups:
            groups |= _groups(whole, table, [roles.unit])
    if problems:
        raise InputError("; ".join(problems))
    return encoded, ids, groups


def _records(
    frame: Frame,
    encoded: EncodedLabels,
    ids: npt.NDArray[np.str_],
    groups: Mapping[str, npt.NDArray[np.str_]],
    name: str,
) -> Records:
    columns = _read(frame)
    reading = TableReading(
        tuple(column.reading for column in columns),
        (*_stored_as_text(columns), *likely_mistakes(columns, encoded.labels, encoded.class_names)),
        tuple(column.problem for column in columns if column.problem),
    )
    return Records(
        features=np.concatenate(
            [column.encoded.features(column.encoded.numbers) for column in columns], axis=1
        ),
        labels=encoded.labels,
        ids=ids,
        name=name,
        groups=groups,
        class_names=encoded.class_names,
        feature_names=tuple(feature for column in columns for feature in column.encoded.names),
        frame=frame,
        reading=reading,
    )


def _stored_as_text(columns: Sequence[ReadColumn]) -> list[str]:
    readings = [column.reading for column in columns if column.reading.is_text]
    return [
        f"{one.name!r} is text that holds {one.kind}s; an estimator gets text: convert the column if "
        f"{one.kind}s are meant"
        for one in readings
    ]


def _read(frame: Frame) -> list[ReadColumn]:
    if frame.kind != "sparse":
        return [read_column(frame.column(at)) for at in range(len(frame.names))]
    n_bytes = 4 * len(frame) * len(frame.names)
    if n_bytes > MOST_DENSE_BYTES:
        raise InputError(
            f"X is sparse, and its {len(frame.names):,} columns take {n_bytes / 2**30:,.1f} GiB when they "
            "are dense, which the checks need; give the raw columns, and vectorize them in a Pipeline"
        )
    by_column = Frame(frame.data.tocsc(), "sparse")
    return [read_column(by_column.column(at)) for at in range(len(frame.names))]


def _features_of(whole: Frame, named: Sequence[str], chosen: tuple[str, ...] | None) -> Frame:
    """The columns that are features."""
    if chosen is not None:
        require_names("feature column", chosen, whole.names)
        wrong = [name for name in chosen if name in named]
        if wrong:
            raise InputError(
                f"{wrong[0]!r} is the label or the id and cannot be a feature; take it out of features"
            )
        named = [name for name in whole.names if name not in chosen]
    if set(whole.names) <= set(named):
        raise InputError(f"no feature columns are left beside {', '.join(map(repr, named))}; give features")
    return whole.without(named)


def _values(whole: Frame, table: Any, given: Any, what: str) -> PlainColumn:
    """A column of the table by name, or values of the user's own, one per row."""
    if given is None:
        names = f"; give one of {', '.join(whole.names[:20])}, or values" if len(whole.names) < 50 else ""
        raise InputError(f"{what} is missing{names}")
    if isinstance(given, str):
        require_names(f"{what} column", [given], whole.names)
        return whole.column(whole.names.index(given))
    _check_index(table, given, what)
    is_table = hasattr(given, "iloc") or isinstance(given, np.ndarray) or hasattr(given, "to_physical")
    own = frame_of(given if is_table or hasattr(given, "columns") else _objects(given, what), what)
    if len(own.data.shape) > 2 or len(own.names) != 1:
        raise InputError(f"{what} has shape {tuple(own.data.shape)}; give one value per row")
    if len(own) != len(whole):
        raise InputError(f"{what} has {len(own):,} values, but X has {len(whole):,} rows")
    column = own.column(0)
    if column.note == "object":
        raise InputError(f"{what} holds neither numbers nor text; give one number or one string per row")
    name = getattr(given, "name", None)
    return column._replace(name=name if isinstance(name, str) and name else what)


def _objects(given: Any, what: str) -> AnyArray:
    """A list, a pandas index or a tensor as an array of objects."""
    if hasattr(given, "tolist") and not isinstance(given, Sequence):
        given = given.tolist()
    if not isinstance(given, Sequence):
        raise InputError(f"{what} is {type(given).__name__}; give the name of a column, or one value per row")
    values = np.empty(len(given), dtype=object)
    values[:] = given
    return values


def _check_index(table: Any, given: Any, what: str) -> None:
    """Refuses values of pandas whose index is not that of the table: only the user knows which is right."""
    if not (hasattr(table, "iloc") and hasattr(given, "iloc")) or given.index.equals(table.index):
        return
    raise InputError(
        f"{what} has another index than X; give {what}.loc[X.index], or {what}.to_numpy() if its rows are in "
        "the order of X"
    )


def _ids(whole: Frame, table: Any, given: Any) -> npt.NDArray[np.str_]:
    if given is None:
        return numbered_ids("row-", len(whole))
    column = _values(whole, table, given, "ids")
    refuse_where(
        column.series.is_null().to_numpy(), f"id {column.name!r} has no value", "give each record an id"
    )
    return unique_ids(texts_of(column.series.alias(column.name)), column.name)


def _groups(whole: Frame, table: Any, given: Any) -> dict[str, npt.NDArray[np.str_]]:
    """Groups by name; columns of the table stay features."""
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        return {
            str(name): group_of(_values(whole, table, values, f"groups[{name!r}]").series)
            for name, values in given.items()
        }
    if given is None or (isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)):
        return {
            name: group_of(_values(whole, table, name, "group").series) for name in dict.fromkeys(given or ())
        }
    _check_index(table, given, "groups")
    own = frame_of(given, "groups")
    if len(own) != len(whole) or len(own.data.shape) > 2:
        raise InputError(f"groups has shape {tuple(own.data.shape)}, but X has {len(whole):,} rows")
    return {name: group_of(own.column(at).series) for at, name in enumerate(own.names)}
