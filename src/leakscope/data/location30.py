"""Location-30 (Shokri et al. 2017): 5,010 people by the places in Bangkok they checked in at.

446 binary features say which regions and kinds of place a person visited; the 30 classes are clusters
of similar people. The file is read straight from the published archive, nothing is extracted to disk.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.data.published import DAMAGE, require
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError
from leakscope.types import Records

ARCHIVE = "dataset_location.tgz"
MEMBER = "bangkok"
N_RECORDS = 5_010
N_FEATURES = 446
N_CLASSES = 30
_LARGEST_MEMBER = 1 << 26  # 64 MiB; the published one has 4.5 MB, so more is not it


def location30(folder: Path) -> Records:
    """The people as float32 (5010, 446) of zeros and ones, in the order of the file."""
    (path,) = require("location30", folder, [ARCHIVE])
    table = _parse(path, _read_member(path))  # (records, 1 + features)
    return Records(
        features=table[:, 1:].astype(np.float32),
        labels=table[:, 0].astype(np.int64) - 1,
        ids=numbered_ids("location30-", len(table), width=4),
        name="location30",
        class_names=tuple(str(cluster) for cluster in range(1, N_CLASSES + 1)),
    )


def _read_member(path: Path) -> bytes:
    """The bytes of the one member we know; any other member is ignored."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            member = archive.getmember(MEMBER)
            if not member.isreg() or member.size > _LARGEST_MEMBER:
                raise InputError(f"{path}: {MEMBER!r} is not the published file; fetch the archive again")
            stream = archive.extractfile(member)
            assert stream is not None  # true of every regular file
            return stream.read()
    except KeyError as error:
        raise InputError(f"{path} holds no file {MEMBER!r}; fetch it again") from error
    except (tarfile.TarError, *DAMAGE) as error:
        size = path.stat().st_size
        raise InputError(
            f"{path} is truncated or damaged: it has {size:,} bytes, expected 287,293 ({error}); "
            "delete it and fetch it again"
        ) from error


def _parse(path: Path, content: bytes) -> npt.NDArray[np.int16]:
    expected = f"{N_RECORDS:,} rows of {1 + N_FEATURES} columns"
    try:
        table = np.loadtxt(
            io.BytesIO(content), dtype=np.int16, delimiter=",", quotechar='"', comments=None, ndmin=2
        )
    except ValueError as error:
        raise InputError(f"{path}: {MEMBER!r} is malformed: {error}; expected {expected}") from error
    if table.shape != (N_RECORDS, 1 + N_FEATURES):
        shape = f"{table.shape[0]:,} rows of {table.shape[1]} columns"
        raise InputError(f"{path}: {MEMBER!r} has {shape}, expected {expected}; fetch it again")
    clusters = table[:, 0]
    if not np.isin(table[:, 1:], (0, 1)).all() or clusters.min() < 1 or clusters.max() > N_CLASSES:
        raise InputError(f"{path}: {MEMBER!r} must hold classes 1 to {N_CLASSES} and binary features")
    return table
