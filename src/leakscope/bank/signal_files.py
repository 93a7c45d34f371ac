"""The signals of a complete bank: `signals/NAME.npy`, one array each, with one checksum per block."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.damage import REPAIR, Damage, block_mismatch, sha256_of_array
from leakscope.bank.manifest import SignalFile
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.npy import ArrayFileError, map_array
from leakscope.disk.storage import atomic_file, npy_header
from leakscope.errors import CorruptBankError
from leakscope.signals.registry import file_name


def signal_path(folder: Path, name: str) -> Path:
    """The file of one signal of the bank in `folder`."""
    return folder / "signals" / file_name(name)


def join_blocks(path: Path, n_models: int, blocks: Iterable[AnyArray]) -> SignalFile:
    """Writes one signal from its blocks, in order; returns what the manifest says about the file."""
    rest = iter(blocks)
    first = next(rest)
    shape = (n_models, *first.shape[1:])
    checksums = []
    with atomic_file(path) as file:
        file.write(npy_header(first.dtype, shape))
        for rows in chain([first], rest):
            checksums.append(sha256_of_array(rows))
            for part in row_blocks(rows):
                file.write(np.ascontiguousarray(rows[part]).data)
    return SignalFile(first.dtype.str, shape, tuple(checksums))


def read_block(path: Path, signal: SignalFile, block: int, models: IntArray) -> AnyArray:
    """The rows of one block, not checked; (models, checkpoints, columns[, classes])."""
    dtype = np.dtype(signal.dtype)
    offset = len(npy_header(dtype, signal.shape)) + int(models[0]) * signal.row_bytes
    # Not a memory map of the whole: when the end of the file is gone, other blocks are still readable.
    if not path.is_file() or path.stat().st_size < offset + len(models) * signal.row_bytes:
        raise CorruptBankError(f"{path}: block {block} is cut off or missing; {REPAIR}")
    n_numbers = len(models) * signal.row_bytes // dtype.itemsize
    flat = np.fromfile(path, dtype, n_numbers, offset=offset)
    return flat.reshape(len(models), *signal.row_shape)


def signal_damage(folder: Path, name: str, signal: SignalFile, blocks: Sequence[IntArray]) -> list[Damage]:
    """What is damaged in one signal's file, block by block."""
    path = signal_path(folder, name)
    relative = str(path.relative_to(folder))
    if not path.is_file():
        return [Damage(relative, "is missing", b) for b in range(len(blocks))]
    header = npy_header(np.dtype(signal.dtype), signal.shape)
    damage, size = [], path.stat().st_size
    with path.open("rb") as file:
        if file.read(len(header)) != header:
            damage.append(Damage(relative, "has a damaged header"))
        file.seek(len(header))
        for block, models in enumerate(blocks):
            content = file.read(min(signal.row_bytes * len(models), size))  # no more than there can be
            if hashlib.sha256(content).hexdigest() != signal.sha256[block]:
                damage.append(block_mismatch(relative, block, models))
        if file.read(1):
            damage.append(Damage(relative, "is longer than it should be"))
    return damage


def map_signal(path: Path, shape: tuple[int, int, int]) -> AnyArray:
    """A signal, memory-mapped.

    Args:
        path: its file.
        shape: (models, checkpoints, columns) that it must have.
    """
    try:
        array = map_array(path)
    except ArrayFileError as error:
        raise CorruptBankError(f"{path} {error}; {REPAIR}") from error
    if array.shape[:3] != shape or array.dtype.kind not in "biuf":
        raise CorruptBankError(f"{path} holds {array.dtype} {array.shape}; {REPAIR}")
    return array
