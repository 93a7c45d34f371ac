"""Datasets by name: look one up, load its records.

Loaders are named as text in the catalogue and imported when called, so that knowing the datasets costs
nothing. A user's own dataset is named the same way, "package.module:function"; the function takes options
and returns `Records`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leakscope.data.catalogue import DATASETS, Dataset
from leakscope.data.published import data_root
from leakscope.errors import InputError, did_you_mean
from leakscope.types import Records
from leakscope.user_code import import_object, names_code


def dataset_names() -> tuple[str, ...]:
    """The names of all datasets, in the order they are listed."""
    return tuple(entry.name for entry in DATASETS)


def dataset(name: str) -> Dataset:
    """The entry of one dataset.

    Raises:
        InputError: there is no such dataset; lists the names and the closest.
    """
    for entry in DATASETS:
        if entry.name == name:
            return entry
    hint = did_you_mean(name.lower(), dataset_names(), before="; ")
    raise InputError(
        f"unknown dataset {name!r}{hint} (known: {', '.join(dataset_names())}; give your own as "
        "'package.module:function')"
    )


def load(name: str, data_dir: Path | str | None = None, **options: Any) -> Records:
    """The records of a dataset.

    Args:
        name: one of `dataset_names()`, or "package.module:function" of your own.
        data_dir: the data folder; else $LEAKSCOPE_DATA, else the user's own data folder. Your own function
            does not get it.
        **options: what the dataset's function takes, such as `encoding="integer"` for adult.

    Raises:
        InputError: unknown name or option, a damaged file, or your own function does not return Records.
        DataMissingError: files are absent; says which and what to do.
    """
    if names_code(name):
        return _own_records(name, options)
    entry = dataset(name)
    module, _, function = entry.loader.partition(":")
    loader: Callable[..., Records] = getattr(importlib.import_module(module), function)
    _check_options(entry, loader, options)
    if not entry.files:
        return loader(**options)
    try:
        return loader(entry.folder_in(data_root(data_dir)), **options)
    except OSError as error:
        raise InputError(f"{name}: cannot read {error.filename}: {error.strerror}; check the file") from error


def _own_records(path: str, options: dict[str, object]) -> Records:
    """What the user's function returns."""
    function = import_object("dataset", path, "my_package.data:my_records")
    if not callable(function):
        raise InputError(f"dataset={path!r} is {type(function).__name__}, not a function")
    try:
        inspect.signature(function).bind(**options)
    except TypeError as error:
        raise InputError(f"dataset={path!r} with options {options}: {error}") from error
    records = function(**options)
    if not isinstance(records, Records):
        raise InputError(
            f"dataset={path!r} returned {type(records).__name__}; return leakscope.Records(features, labels, "
            "ids, ...)"
        )
    return records


def _check_options(entry: Dataset, loader: Callable[..., Records], options: Mapping[str, object]) -> None:
    accepted = [option for option in inspect.signature(loader).parameters if option != "folder"]
    unknown = [option for option in options if option not in accepted]
    if unknown:
        takes = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
        raise InputError(f"{entry.name}: unknown option {', '.join(unknown)}; {takes}")
