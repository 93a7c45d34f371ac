"""Reads a folder of `.npy` files whose features may be larger than memory: they stay on disk.

    FOLDER/features.npy   float32 (records, ...), or uint8 images (records, channels, height, width)
    FOLDER/labels.npy     one value per record: text, bools or numbers
    FOLDER/ids.npy        optional, unique
    FOLDER/group_*.npy    optional: group_region.npy is the group "region"

Arrays with one value per record are read into memory. The features are a memory map, which is processed block
by block before and while models are trained on a CPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.data.columns import Task, encode_labels, require_names
from leakscope.data.npz_file import (
    FEATURE_NAMES,
    LABEL_NAMES,
    NO_OBJECTS,
    as_images,
    as_vector,
    check_lengths,
    first_of,
    ids_of,
)
from leakscope.disk.npy import ArrayFileError, PickledArrayError, load_array, map_array
from leakscope.errors import InputError
from leakscope.types import Records

_GROUP = "group_"


def is_array_folder(folder: Path) -> bool:
    """True when the folder has any array; reading it says which are missing."""
    return any(path.suffix == ".npy" for path in folder.iterdir())


def read_array_folder(
    folder: Path, label: str | None, ids_name: str | None, group_names: tuple[str, ...], task: Task
) -> Records:
    """The records of a folder of arrays.

    Args:
        folder: see above.
        label: name of the file of labels, without `.npy`; by default `labels` or `y`.
        ids_name: name of the file of ids; by default `ids`, where there is one.
        group_names: groups to report risk for, without `group_`; empty: all.
        task: see `leakscope.data.files.read_table`.
    """
    files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix == ".npy" and path.is_file()}
    group_files = _group_files(list(files), group_names)
    require_names("label array", [] if label is None else [label], list(files))
    require_names("id array", [] if ids_name is None else [ids_name], list(files))
    features_name = first_of("features", FEATURE_NAMES, files)
    label = label or first_of("labels", LABEL_NAMES, files)
    ids_name = ids_name or ("ids" if "ids" in files else None)
    wanted = [name for name in (label, ids_name, *group_files.values()) if name]
    vectors = {name: as_vector(name, _array(files[name])) for name in wanted}
    features = _features(features_name, _array(files[features_name], mapped=True))
    check_lengths({features_name: features, **vectors})
    encoded = encode_labels(vectors[label], label, task)
    return Records(
        features=features,
        labels=encoded.labels,
        ids=ids_of(vectors, ids_name, len(encoded.labels)),
        name=folder.resolve().name,
        groups={name: vectors[file].astype(np.str_) for name, file in group_files.items()},
        class_names=encoded.class_names,
    )


def _group_files(names: list[str], wanted: tuple[str, ...]) -> dict[str, str]:
    """Group -> its file's name; all groups when none are named."""
    files = {name.removeprefix(_GROUP): name for name in names if name.startswith(_GROUP)}
    require_names("group array", wanted, list(files))
    return {name: files[name] for name in wanted or files}


def _array(path: Path, mapped: bool = False) -> AnyArray:
    try:
        return map_array(path) if mapped else load_array(path)
    except PickledArrayError as error:
        raise InputError(f"{path.name} {NO_OBJECTS}") from error
    except ArrayFileError as error:
        raise InputError(f"{path.name} {error}; save it with numpy.save") from error


def _features(name: str, array: AnyArray) -> AnyArray:
    """The memory map, unchanged: a conversion would need the features in memory."""
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        features: AnyArray = as_images(name, array)
    elif array.dtype == np.float32:
        features = array[:, None] if array.ndim == 1 else array
    else:
        raise InputError(
            f"{name}.npy holds {array.dtype} {array.shape}; features stay on disk as they are, so save "
            "float32 (records, ...) or, for images, uint8 (records, channels, height, width)"
        )
    if not features.size:
        raise InputError(f"{name}.npy has shape {array.shape}, which is empty")
    if not array.flags.c_contiguous:
        raise InputError(
            f"{name}.npy is in Fortran order, in which a record lies scattered over the file; "
            "save numpy.ascontiguousarray(features)"
        )
    return features
