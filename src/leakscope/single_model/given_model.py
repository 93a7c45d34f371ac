"""A given network and two files of records become public and private predictions.

The network's outputs are numbered, so labels must be too: whole numbers from 0 are taken as the outputs'
numbers; other labels are numbered in alphabetical order over both files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leakscope.array_types import IntArray
from leakscope.data.files import read_table
from leakscope.data.predictions import Predictions, as_bools
from leakscope.disk.parquet import ParquetFileError, check_parquet
from leakscope.errors import InputError
from leakscope.types import Records

if TYPE_CHECKING:
    from leakscope.models.weights import PixelScaling

MEMBERSHIP = "is_member"


@dataclass(frozen=True)
class GivenModel:
    """A network's weights and how to build and feed it.

    Attributes:
        weights: safetensors, or a state dict saved by torch.
        net: a shipped network's name or "package.module:factory".
        net_options: keyword arguments of the factory.
        scaling: how uint8 images became inputs; None: pixels divided by 255.
    """

    weights: Path
    net: str
    net_options: Mapping[str, Any] = field(default_factory=dict)
    scaling: PixelScaling | None = None


class TwoPredictions(NamedTuple):
    """A model's answers about both files."""

    public: Predictions
    private: Predictions


def ask_given_model(
    model: GivenModel,
    public_file: Path,
    private_file: Path,
    label: str | None = None,
    id_column: str | None = None,
    n_classes: int | None = None,
) -> TwoPredictions:
    """The model's answers about the records of two files.

    Args:
        model: the network.
        public_file: csv, parquet or npz with a column (array) `is_member`.
        private_file: the same without it; one that is there is not looked at.
        label: column of labels; "label" for csv and parquet, `labels` or `y` in an npz.
        id_column: column of ids; `id` (npz: `ids`) if there is one.
        n_classes: number of the network's outputs; by default as many as there are labels.
    """
    from leakscope.models.weights import load_net

    public = _read(public_file, label, id_column)
    private = _read(private_file, label, id_column)
    if MEMBERSHIP not in public.groups:
        raise InputError(f"{public_file} does not say who was trained on; add {MEMBERSHIP}, true or false")
    shapes = [tuple(records.features.shape[1:]) for records in (public, private)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"records of {public_file} have shape {shapes[0]}, those of {private_file} {shapes[1]}; "
            "both need the same features (text columns give one feature a category)"
        )
    labels, n_labels = output_numbers(public, private)
    net = load_net(model.weights, model.net, model.net_options, shapes[0], n_classes or n_labels)
    return TwoPredictions(*(_asked(model, net, r, y) for r, y in zip((public, private), labels, strict=True)))


def output_numbers(public: Records, private: Records) -> tuple[tuple[IntArray, IntArray], int]:
    """Which of the network's outputs each label means, for both files; and the number of outputs."""
    names = sorted({*public.class_names, *private.class_names})
    if all(name.isdecimal() for name in names):
        number = {name: int(name) for name in names}
    else:
        number = {name: index for index, name in enumerate(names)}
    public_labels, private_labels = (
        np.array([number[name] for name in records.class_names], dtype=np.int64)[records.labels]
        for records in (public, private)
    )
    return (public_labels, private_labels), max(number.values()) + 1


def _read(path: Path, label: str | None, id_column: str | None) -> Records:
    columns = _column_names(path)
    if columns is None:  # npz: read_table knows the usual names of arrays, and takes no others
        names = _array_names(path)
        groups = [MEMBERSHIP] if MEMBERSHIP in names else []
        records = read_table(path, label, id_column, groups, task="classification")
    else:
        groups = [MEMBERSHIP] if MEMBERSHIP in columns else []
        id_column = id_column or ("id" if "id" in columns else None)
        records = read_table(path, label or "label", id_column, groups, task="classification")
    return records


def _column_names(path: Path) -> list[str] | None:
    """Columns of a csv or parquet file; None for anything else, an unreadable file among it."""
    import polars as pl

    readers = {
        ".csv": lambda: pl.read_csv(path, n_rows=0).columns,
        ".parquet": lambda: [*pl.read_parquet_schema(path)],
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        return None
    try:
        if path.suffix.lower() == ".parquet":
            check_parquet(path)
        return reader()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ParquetFileError, OSError):
        return []  # read_table says what is wrong


def _array_names(path: Path) -> list[str]:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile):
        return []  # read_table says what is wrong


def _asked(model: GivenModel, net: Any, records: Records, labels: IntArray) -> Predictions:
    from leakscope.models.weights import predict_logits

    members = records.groups.get(MEMBERSHIP)
    return Predictions(
        logits=predict_logits(net, records.features, model.scaling),
        labels=labels,
        ids=records.ids,
        is_member=as_bools(members, MEMBERSHIP)
        if members is not None and "(missing)" not in members
        else None,
        name=records.name,
    )
