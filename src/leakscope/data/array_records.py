"""Reads records from named arrays: an npz file, or a folder of `.npy` files that may be larger than memory.

    FOLDER/features.npy   float32 (records, ...), or uint8 images (records, channels, height, width)
    FOLDER/labels.npy     one value per record: text, bools or numbers
    FOLDER/ids.npy        optional, unique
    FOLDER/group_*.npy    optional: group_region.npy is the group "region"

Arrays with one value per record are read into memory. The features of a folder are a memory map, which is
processed block by block before and while models are trained on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.data.columns import Roles, encode_labels, numeric_features, require_names, unique_ids
from leakscope.data.npz_file import NO_OBJECTS, as_vector, check_lengths, read_arrays
from leakscope.disk.npy import ArrayFileError, PickledArrayError, load_array, map_array
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError
from leakscope.types import Records

_FEATURES, _LABELS = ("features", "x"), ("labels", "y")
_GROUP = "group_"


def read_npz(path: Path, roles: Roles) -> Records:
    """The records of an npz file; see `leakscope.data.files.read_table`."""
    arrays = read_arrays(path)
    groups = {name: name for name in arrays}
    return _records(path.stem, arrays, lambda name, _: arrays[name], array_features, groups, roles)


def is_array_folder(folder: Path) -> bool:
    """True when the folder has any array; reading it says which are missing."""
    return any(path.suffix == ".npy" for path in folder.iterdir())


def read_array_folder(folder: Path, roles: Roles) -> Records:
    """The records of a folder of arrays; `roles` name files without `.npy`, and groups without `group_`."""
    files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix == ".npy" and path.is_file()}
    groups = {name.removeprefix(_GROUP): name for name in files if name.startswith(_GROUP)}
    wanted = roles._replace(groups=roles.groups or tuple(groups))
    return _records(
        folder.resolve().name,
        files,
        lambda name, is_large: _file(files[name], map_array if is_large else load_array),
        _mapped_features,
        groups,
        wanted,
    )


def _records(
    name: str,
    names: Collection[str],
    read: Callable[[str, bool], AnyArray],
    as_features: Callable[[str, AnyArray], AnyArray],
    group_arrays: Mapping[str, str],
    roles: Roles,
) -> Records:
    """The records of named arrays; `group_arrays` says which array holds a group."""
    known = list(names)
    require_names("label array", [roles.label] if roles.label else [], known)
    require_names("id array", [roles.id] if roles.id else [], known)
    require_names("group array", roles.groups, list(group_arrays))
    features_name = _first_of("features", _FEATURES, known)
    label = roles.label or _first_of("labels", _LABELS, known)
    ids_name = roles.id or ("ids" if "ids" in known else None)
    read_as_vectors = [label, *([ids_name] if ids_name else []), *(group_arrays[g] for g in roles.groups)]
    vectors = {array: as_vector(array, read(array, False)) for array in read_as_vectors}
    features = read(features_name, True)
    check_lengths({features_name: features, **vectors})
    encoded = encode_labels(vectors[label], label, roles.task)
    return Records(
        features=as_features(features_name, features),
        labels=encoded.labels,
        ids=unique_ids(vectors[ids_name], ids_name)
        if ids_name
        else numbered_ids("row-", len(encoded.labels)),
        name=name,
        groups={group: vectors[group_arrays[group]].astype(np.str_) for group in roles.groups},
        class_names=encoded.class_names,
    )


def _first_of(what: str, names: Sequence[str], known: Sequence[str]) -> str:
    """The first of these names that there is."""
    for name in names:
        if name in known:
            return name
    raise InputError(f"has no array of {what}, {' or '.join(names)}; there are: {', '.join(known) or 'none'}")


def _file(path: Path, read: Callable[[Path], AnyArray]) -> AnyArray:
    try:
        return read(path)
    except PickledArrayError as error:
        raise InputError(f"{path.name} {NO_OBJECTS}") from error
    except ArrayFileError as error:
        raise InputError(f"{path.name} {error}; save it with numpy.save") from error


def array_features(name: str, array: AnyArray) -> AnyArray:
    """Images as they are, other numbers as float32 (records, ...)."""
    if array.dtype.kind not in "biuf":
        raise InputError(f"features {name!r} have type {array.dtype}, expected numbers; encode text first")
    if not array.size:
        raise InputError(f"features {name!r} have shape {array.shape}, which is empty")
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return _images(name, array)
    return numeric_features(array[:, None] if array.ndim == 1 else array, name)


def _mapped_features(name: str, array: AnyArray) -> AnyArray:
    """The memory map, unchanged: a conversion would need the features in memory."""
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        features = _images(name, array)
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


def _images(name: str, array: AnyArray) -> AnyArray:
    """uint8 (records, channels, height, width)."""
    if array.ndim == 3:
        return array[:, None]
    if array.shape[1] > 4 and array.shape[3] <= 4:
        raise InputError(
            f"features {name!r} have shape {array.shape}, which looks channels-last; "
            "save (records, channels, height, width), as in x.transpose(0, 3, 1, 2)"
        )
    return array
