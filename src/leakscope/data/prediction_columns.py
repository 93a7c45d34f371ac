"""A csv or parquet file of predictions, read model by model and column by column.

A file of ten million records and sixteen models has hundreds of millions of numbers. They go from the file
to a memory map, one column at a time, so that what is held in memory are labels, ids and one column.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray
from leakscope.data.column_file import ColumnFile, column_file, column_values, group_of, ids_of
from leakscope.data.columns import numeric_features, require_names
from leakscope.data.predictions import (
    Float32Array,
    Kind,
    Predictions,
    as_bools,
    checked_log_probabilities,
    true_labels,
)
from leakscope.disk.scratch import Scratch, evict_pages, temporary
from leakscope.errors import InputError

_OUTPUT = re.compile(r"(?:reference_(\d{1,6})_)?(?:(logit|prob)_(\d{1,6})|(output))")
_REFERENCE_MEMBER = re.compile(r"reference_(\d{1,6})_member")
_ROLES = ("label", "id", "is_member")


class _Model(NamedTuple):
    """One model's columns of outputs, in the order of their classes, and what they are."""

    outputs: tuple[str, ...]
    kind: Kind


def read_prediction_columns(path: Path) -> Predictions:
    """The predictions of a csv or parquet file; see `leakscope.data.predictions.read_predictions`."""
    with column_file(path) as file:
        require_names("label column", ["label"], file.names)
        target = _model(file, None)
        references = [_model(file, number) for number in _reference_numbers(file)]
        _check_alike(target, references)
        members = [f"reference_{number}_member" for number in range(len(references))]
        require_names("column", members, file.names)
        scratch = temporary()
        taken = {*_ROLES, *members, *(name for model in (target, *references) for name in model.outputs)}
        return Predictions(
            logits=_logits(file, [target], scratch)[0],
            labels=true_labels(column_values(file.column("label"), "label"), "label", target.kind),
            ids=ids_of(file, "id" if "id" in file.names else None),
            is_member=_is_member(file),
            groups={name: group_of(file.column(name)) for name in file.names if name not in taken},
            name=path.stem,
            kind=target.kind,
            reference_logits=_logits(file, references, scratch) if references else None,
            reference_in_mask=_in_mask(file, members, scratch) if references else None,
        )


def _reference_numbers(file: ColumnFile) -> list[int]:
    """Of the other models, which are numbered from 0."""
    matches = [_OUTPUT.fullmatch(name) or _REFERENCE_MEMBER.fullmatch(name) for name in file.names]
    numbers = {int(match[1]) for match in matches if match and match[1] is not None}
    missing = set(range(len(numbers))) - numbers
    if missing:
        raise InputError(
            f"has no columns of reference_{min(missing)}; number the other models from 0 without gaps"
        )
    return sorted(numbers)


def _model(file: ColumnFile, reference: int | None) -> _Model:
    prefix = "" if reference is None else f"reference_{reference}_"
    matches = [match for match in map(_OUTPUT.fullmatch, file.names) if match]
    own = [match for match in matches if (None if match[1] is None else int(match[1])) == reference]
    stems = sorted({f"{match[2]}_" if match[2] else match[4] for match in own})
    if len(stems) != 1:
        problem = f"has both {' and '.join(prefix + stem for stem in stems)} columns" if own else (
            f"has no columns {prefix}logit_0 or {prefix}prob_0, ..., and no column {prefix}output"
        )  # fmt: skip
        raise InputError(f"{problem}; save exactly one kind, one column per class, or numbers as output")
    (stem,) = stems
    if stem == "output":
        return _Model((f"{prefix}output",), "outputs")
    ordered = tuple(f"{prefix}{stem}{index}" for index in range(len(own)))
    require_names("output column", ordered, file.names)
    if len(ordered) < 2:
        raise InputError(f"has the column {ordered[0]} alone; give a binary model both, p and 1 - p")
    return _Model(ordered, "logits" if stem == "logit_" else "probabilities")


def _check_alike(target: _Model, references: list[_Model]) -> None:
    for number, reference in enumerate(references):
        if (reference.kind == "outputs") != (target.kind == "outputs"):
            raise InputError(
                f"reference_{number} has {reference.kind}, the model {target.kind}; save all alike"
            )
        if len(reference.outputs) != len(target.outputs):
            raise InputError(
                f"reference_{number} has {len(reference.outputs)} classes, the model itself "
                f"{len(target.outputs)}; "
                "give the same classes for all"
            )


def _logits(file: ColumnFile, models: list[_Model], scratch: Scratch) -> Float32Array:
    """float32 (models, records, classes); log-probabilities where that is given."""
    shape = (file.n_rows, len(models[0].outputs))
    logits: Float32Array = scratch.empty((len(models), *shape), np.float32)
    for own, model in zip(logits, models, strict=True):
        is_probability = model.kind == "probabilities"
        outputs = scratch.empty(shape) if is_probability else own
        for at, series in enumerate(file.columns(model.outputs)):
            values = column_values(series, "output")
            if values.dtype.kind not in "iuf":
                raise InputError(f"output {series.name!r} has type {series.dtype}, expected numbers")
            outputs[:, at] = values if is_probability else numeric_features(values, series.name, "output")
        if is_probability:
            checked_log_probabilities(outputs, model.kind, own)
        evict_pages(logits)
    return logits


def _is_member(file: ColumnFile) -> BoolArray | None:
    if "is_member" not in file.names or (series := file.column("is_member")).null_count() == file.n_rows:
        return None
    return as_bools(column_values(series, "membership"), "is_member")


def _in_mask(file: ColumnFile, names: list[str], scratch: Scratch) -> BoolArray:
    """bool (references, records)."""
    in_mask: BoolArray = scratch.empty((len(names), file.n_rows), np.bool_)
    for own, series in zip(in_mask, file.columns(names), strict=True):
        own[:] = as_bools(column_values(series, "membership"), series.name)
    evict_pages(in_mask)
    return in_mask
