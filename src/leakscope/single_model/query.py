"""Queries a given model on two files of records: outputs on public and private records.

A label names one of the model's outputs. Labels that are whole numbers are the numbers of outputs, from 0.
Other labels are numbered in alphabetical order over both files, or as the model itself names its classes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakscope.array_types import IntArray
from leakscope.data.files import read_table
from leakscope.data.predictions import Predictions, as_bools
from leakscope.disk.parquet import ParquetFileError, check_parquet
from leakscope.errors import InputError
from leakscope.models.given import GivenModel
from leakscope.types import Records

MEMBERSHIP = "is_member"
_UNKNOWN = "(missing)"  # what read_table puts for an empty cell of a group


@dataclass(frozen=True)
class RecordFiles:
    """Where public and private records are, and what their columns mean.

    Attributes:
        public: csv, parquet or npz with a column (in npz: an array) `is_member`.
        private: the same without it; if it is there, it is not used.
        label: column of labels; None: `label`, in npz `labels` or `y`.
        id_column: column of ids; None: `id` (in npz: `ids`) if there is one.
        n_classes: number of the model's outputs; None: one per label.
    """

    public: Path
    private: Path
    label: str | None = None
    id_column: str | None = None
    n_classes: int | None = None


def query_model(model: GivenModel, files: RecordFiles) -> tuple[Predictions, Predictions]:
    """The model's outputs on the public and on the private records.

    Raises:
        InputError: the files do not fit each other or the model.
    """
    public, private = (
        read_records(path, files.label, files.id_column) for path in (files.public, files.private)
    )
    if MEMBERSHIP not in public.groups:
        raise InputError(f"{files.public} does not say who is a member; add {MEMBERSHIP}, true or false")
    shapes = [tuple(records.features.shape[1:]) for records in (public, private)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"records of {files.public} have shape {shapes[0]}, those of {files.private} {shapes[1]}; both "
            "need the same features (a text column becomes one feature per category)"
        )
    names = class_names(public, private, model.class_names, files.n_classes)
    return _predictions(model, public, names), _predictions(model, private, names)


def class_names(
    public: Records, private: Records, model_classes: Sequence[str] = (), n_classes: int | None = None
) -> tuple[str, ...]:
    """What output 0, 1, ... of the model is called in the labels of both files.

    Args:
        public: records of known membership.
        private: records to score.
        model_classes: what the model calls its classes; empty: it only numbers them.
        n_classes: number of outputs, where it is more than the labels show.
    """
    labels = {*public.class_names, *private.class_names}
    if labels <= set(model_classes):
        return tuple(model_classes)
    if all(label.isdecimal() for label in labels):
        names = [str(number) for number in range(max(map(int, labels)) + 1)]
    else:
        names = sorted(labels)
    n_outputs = n_classes or len(names)
    if n_outputs < len(names):
        raise InputError(f"n_classes={n_outputs}, but the labels need {len(names)} outputs")
    return (*names, *(f"output {number}" for number in range(len(names), n_outputs)))


def read_records(path: Path, label: str | None = None, id_column: str | None = None) -> Records:
    """Records of a csv, parquet or npz file; `is_member` is no feature."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        groups = [MEMBERSHIP] if MEMBERSHIP in _array_names(path) else []
        return read_table(path, label, id_column, groups, task="classification")
    columns = _column_names(path)
    groups = [MEMBERSHIP] if MEMBERSHIP in columns else []
    id_column = id_column or ("id" if "id" in columns else None)
    return read_table(path, label or "label", id_column, groups, task="classification")


def _column_names(path: Path) -> list[str]:
    """Columns of a csv or parquet file; none if it cannot be read, which read_table reports."""
    import polars as pl

    try:
        if path.suffix.lower() == ".csv":
            return pl.read_csv(path, n_rows=0).columns
        check_parquet(path)
        return [*pl.read_parquet_schema(path)]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ParquetFileError, OSError):
        return []


def _array_names(path: Path) -> list[str]:
    """Arrays of an npz file; none if it cannot be read, which read_table reports."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile):
        return []


def _predictions(model: GivenModel, records: Records, names: Sequence[str]) -> Predictions:
    number = {name: index for index, name in enumerate(names)}
    labels: IntArray = np.array([number[name] for name in records.class_names], dtype=np.int64)[
        records.labels
    ]
    members = records.groups.get(MEMBERSHIP)
    is_known = members is not None and _UNKNOWN not in members
    logits, kind = model.outputs(records.features, names)
    return Predictions(
        logits=logits,
        labels=labels,
        ids=records.ids,
        is_member=as_bools(members, MEMBERSHIP) if members is not None and is_known else None,
        name=records.name,
        kind=kind,
    )
