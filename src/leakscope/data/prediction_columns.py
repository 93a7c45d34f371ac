"""A csv or parquet file of predictions, read model by model and column by column.

A file of ten million records and sixteen models has hundreds of millions of numbers. They go from the file
to a memory map, one column at a time, so that what is held in memory are labels, ids and one column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray
from leakscope.data.column_file import ColumnFile, column_file, column_values, group_of, ids_of
from leakscope.data.columns import listed, numeric_features, require_names
from leakscope.data.csv_form import naming_lines
from leakscope.data.prediction_classes import (
    ClassOrder,
    TrueClasses,
    check_assumed,
    class_order,
    codes_in,
    true_classes,
)
from leakscope.data.prediction_long import repeats_records, side_by_side
from leakscope.data.prediction_numbers import numbers_of
from leakscope.data.prediction_roles import (
    ModelColumns,
    PredictionColumns,
    TableRoles,
    model_column,
    reference_columns,
    reference_numbers,
    table_roles,
    target_columns,
)
from leakscope.data.predictions import (
    Float32Array,
    Predictions,
    as_bools,
    checked_log_probabilities,
    refuse_outside,
    refuse_probabilities,
)
from leakscope.disk.scratch import Scratch, evict_pages, temporary
from leakscope.disk.storage import temporary_folder
from leakscope.errors import InputError

_MOST_GROUPS = 100  # different values of one column; more are no groups, but numbers or texts
_SHOWN = 6


class _Labels(NamedTuple):
    """Labels as `Predictions` wants them, and the classes; none of a regression."""

    values: AnyArray
    order: ClassOrder


def read_prediction_columns(path: Path, given: PredictionColumns) -> Predictions:
    """The predictions of a csv or parquet file; see `leakscope.data.predictions.read_predictions`."""
    with _opened(path, given) as file, temporary_folder() as folder:
        roles = _without_repeated_index(file, table_roles(file.names, given), given)
        with naming_lines(path):
            target, classes = _target(file, roles, given)
        model = model_column(file.names, given)
        has_models = given.model_column is not None or (model is not None and repeats_records(file, roles))
        if has_models:
            assert model is not None, "a column that is given was found"
            at = folder / "side_by_side.parquet"
            file = side_by_side(file, roles, target.names, model, given.target, at)
            _, classes = _target(file, roles, given)
        elif given.target is not None:
            raise InputError("target names a model, but no column names the models; add --model-column")
        with nullcontext() if has_models else naming_lines(path):
            return _predictions(path.stem, file, roles, target, _labels(file, target, classes, roles, given))


@contextmanager
def _opened(path: Path, given: PredictionColumns) -> Iterator[ColumnFile]:
    try:
        with column_file(path, ["id" if given.id is None else given.id]) as file:
            yield file
    except InputError as error:
        if "remove the extra field" in str(error):
            raise InputError(
                f"{error}; if numbers have decimal commas, separate the columns by semicolons"
            ) from error
        raise


def _without_repeated_index(file: ColumnFile, roles: TableRoles, given: PredictionColumns) -> TableRoles:
    """An index that pandas wrote is no id where it repeats, as after `concat`."""
    is_index = given.id is None and roles.id in ("", "index")
    return roles._replace(id=None) if is_index and repeats_records(file, roles) else roles


def _target(
    file: ColumnFile, roles: TableRoles, given: PredictionColumns
) -> tuple[ModelColumns, TrueClasses | None]:
    """The target's columns, and the classes of the records unless it predicts numbers."""
    target = target_columns(file.names, roles, given)
    series = file.column(roles.label)
    if target is not None and target.kind == "outputs":
        if not target.is_sure:
            _refuse_predicted_classes(file, target.names[0], roles.label)
        return target, None
    classes = true_classes(column_values(series, "label"), roles.label)
    if target is None:
        target = _named_after_classes(file, roles, classes)
    _refuse_lists(file, target.names)
    return target, classes


def _refuse_lists(file: ColumnFile, names: Sequence[str]) -> None:
    """Several numbers in one cell, as `str(array)` writes them; looked for before classes are matched."""
    import polars as pl

    first = pl.scan_parquet(file.path, glob=False, hive_partitioning=False).select(names).head(1).collect()
    for series in first:
        text = str(series[0])
        if isinstance(series.dtype, pl.List | pl.Array) or text.lstrip().startswith(("[", "(")):
            raise InputError(
                f"output {series.name!r} holds several numbers in one cell, such as {text[:40]!r}; write one "
                "column per class, named prob_CLASS"
            )


def _named_after_classes(file: ColumnFile, roles: TableRoles, classes: TrueClasses) -> ModelColumns:
    """Columns that are called like the labels hold probabilities."""
    columns = tuple(name for name in classes.names if name in file.names and name not in roles)
    if len(columns) == len(classes.names) or (columns and len(classes.names) == 2):
        for series in file.columns(columns):
            values = numbers_of(series, "output")
            if values.min() < 0 or values.max() > 1:
                outside = values[(values < 0) | (values > 1)][0]
                raise InputError(
                    f"the columns {listed(columns, _SHOWN)} are named after classes and hold {outside:g}, "
                    "expected values from 0 to 1; divide percent by 100, and name raw outputs with --logit"
                )
        return ModelColumns(columns, "probabilities", columns)
    raise InputError(
        "has no columns prob_CLASS or logit_CLASS, one per class, and none named after all classes; name "
        f"the columns of probabilities with --prob, of logits with --logit, or of the numbers that a "
        f"regression predicts with --prediction (there are: {listed(file.names)})"
    )


def _refuse_predicted_classes(file: ColumnFile, column: str, label: str) -> None:
    """A column called "prediction" may hold the predicted class, which says too little for an audit."""
    predicted, true = (column_values(file.column(name), "label") for name in (column, label))
    is_number = predicted.dtype.kind in "iuf" and true.dtype.kind in "iuf"
    if is_number and not np.isin(predicted, true).all():
        return
    raise InputError(
        f"{column!r} seems to hold predicted classes; save probabilities (predict_proba) and name them with "
        f"--prob, or, if it holds the numbers that a regression predicts, add --prediction {column}"
    )


def _labels(
    file: ColumnFile,
    target: ModelColumns,
    classes: TrueClasses | None,
    roles: TableRoles,
    given: PredictionColumns,
) -> _Labels:
    if classes is None:
        numbers = numbers_of(file.column(roles.label), "label")
        return _Labels(numeric_features(numbers, roles.label, "label"), ClassOrder((), False))
    order = class_order(target, classes, given.classes)
    return _Labels(codes_in(order, classes), order)


def _predictions(
    name: str, file: ColumnFile, roles: TableRoles, target: ModelColumns, labels: _Labels
) -> Predictions:
    references = [reference_columns(file.names, number, target) for number in reference_numbers(file.names)]
    members = _reference_members(file, len(references), roles)
    scratch = temporary()
    logits = _logits(file, [target], labels, scratch)[0]
    check_assumed(labels.order, logits, labels.values, target.names)
    taken = {*roles, *members, *(column for model in (target, *references) for column in model.names)}
    groups, repeated, unused = _groups(file, [column for column in file.names if column not in taken])
    return Predictions(
        logits=logits,
        labels=labels.values,
        ids=_ids(file, roles.id),
        is_member=_is_member(file, roles.member),
        groups=groups,
        name=name,
        kind=target.kind,
        reference_logits=_logits(file, references, labels, scratch) if references else None,
        reference_in_mask=_in_mask(file, members, scratch) if references else None,
        class_names=labels.order.names,
        reading=_reading(roles, target, labels.order, groups, unused),
        repeated=repeated,
    )


def _reading(
    roles: TableRoles,
    target: ModelColumns,
    order: ClassOrder,
    groups: dict[str, AnyArray],
    unused: Sequence[str],
) -> str:
    """How the columns were read, in one line."""
    columns = listed([repr(name) for name in target.names], _SHOWN)
    what = f"{target.kind} from {columns}"
    if order.names and len(target.names) == 1:
        what = f"{target.kind} of {order.names[1]!r} from {columns}"
    elif order.names:
        assumed = ", in the order of the labels" if order.is_assumed else ""
        what = f"{what} (classes {listed(order.names, _SHOWN)}{assumed})"
    parts = [f"labels from {roles.label!r}", what]
    parts += [f"members from {roles.member!r}"] if roles.member else []
    parts += [f"ids from {roles.id!r}"] if roles.id else ["records numbered by row"]
    parts += [f"groups from {listed([repr(name) for name in groups], _SHOWN)}"] if groups else []
    shown, have = listed([repr(name) for name in unused], _SHOWN), "has" if len(unused) == 1 else "have"
    parts += [f"no groups from {shown}, which {have} more than {_MOST_GROUPS} values"] if unused else []
    return "; ".join(parts)


def _ids(file: ColumnFile, column: str | None) -> AnyArray:
    try:
        return ids_of(file, column)
    except InputError as error:
        if "not unique" not in str(error):
            raise
        raise InputError(
            f"{error}; if rows belong to several models, name the column of models with --model-column"
        ) from error


def _groups(
    file: ColumnFile, names: Sequence[str]
) -> tuple[dict[str, AnyArray], dict[str, AnyArray], list[str]]:
    """The columns that divide the records into groups; those with too many values, some of which repeat; all
    with too many values."""
    groups, repeated, unused = {}, {}, []
    for name in names:
        series = file.column(name)
        n_values = series.n_unique()
        if n_values <= _MOST_GROUPS:
            groups[name] = group_of(series)
            continue
        unused.append(name)
        if n_values < file.n_rows and not series.dtype.is_float():
            repeated[name] = group_of(series)
    return groups, repeated, unused


def _logits(
    file: ColumnFile, models: Sequence[ModelColumns], labels: _Labels, scratch: Scratch
) -> Float32Array:
    """float32 (models, records, classes); log-probabilities where that is given."""
    shape = (file.n_rows, max(1, len(labels.order.names)))
    logits: Float32Array = scratch.empty((len(models), *shape), np.float32)
    for own, model in zip(logits, models, strict=True):
        is_probability = model.kind == "probabilities"
        outputs = scratch.empty(shape) if is_probability else own
        if len(model.names) < shape[1]:  # one column of a binary classifier
            outputs[:] = 0
        for at, series in enumerate(file.columns(model.names), shape[1] - len(model.names)):
            values = numbers_of(series, "output")
            outputs[:, at] = values if is_probability else numeric_features(values, series.name, "output")
        what = f"{model.kind} {listed(model.names, _SHOWN)}"
        if is_probability and len(model.names) < shape[1]:
            refuse_outside(outputs[:, 1], what)
            outputs[:, 0] = 1 - outputs[:, 1]
        if is_probability:
            checked_log_probabilities(outputs, what, own)
        elif model.kind == "logits":
            refuse_probabilities(own[:, shape[1] - len(model.names) :], what)
        evict_pages(logits)
    return logits


def _is_member(file: ColumnFile, column: str | None) -> BoolArray | None:
    if column is None or (series := file.column(column)).null_count() == file.n_rows:
        return None
    return as_bools(column_values(series, "membership"), column)


def _reference_members(file: ColumnFile, n_references: int, roles: TableRoles) -> list[str]:
    """The column of each reference model's members."""
    members = []
    for number in range(n_references):
        known = [f"reference_{number}_{name}" for name in ("member", "is_member", roles.member)]
        members.append(next((name for name in known if name in file.names), known[0]))
    require_names("column", members, file.names)
    return members


def _in_mask(file: ColumnFile, names: Sequence[str], scratch: Scratch) -> BoolArray:
    """bool (references, records)."""
    in_mask: BoolArray = scratch.empty((len(names), file.n_rows), np.bool_)
    for own, series in zip(in_mask, file.columns(names), strict=True):
        own[:] = as_bools(column_values(series, "membership"), series.name)
    evict_pages(in_mask)
    return in_mask
