"""The signals of a bank on disk.

While it grows, every block is a folder `blocks/NNNNN` that is renamed into place whole. A complete bank has
one array per signal, `signals/NAME.npy`, with one checksum per block.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.damage import REPAIR, Damage, file_damage, sha256_of_array
from leakscope.bank.manifest import BlockNotes, SignalFile
from leakscope.bank.run_folder import parse_as, read_json, to_jsonable
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.npy import ArrayFileError, map_array
from leakscope.disk.storage import atomic_file, atomic_folder, npy_header, sha256_of, write_array, write_json
from leakscope.errors import CorruptBankError, InputError
from leakscope.signals.registry import file_name

_CHECKSUMS, _NOTES = "block.json", "notes.json"


@dataclass(frozen=True)
class BlockFolders:
    """The block folders of the bank in `folder`, which stores these signals."""

    folder: Path
    signal_names: tuple[str, ...]

    def path(self, block: int) -> Path:
        """The folder of one block."""
        return self.folder / "blocks" / f"{block:05d}"

    def exist(self) -> bool:
        """True when there are any, complete or not."""
        return (self.folder / "blocks").exists()

    def write(self, block: int, signals: dict[str, AnyArray], notes: BlockNotes) -> None:
        """Commits one block; all of its files appear at once."""
        folder = self.path(block)
        shutil.rmtree(folder, ignore_errors=True)
        with atomic_folder(folder) as temporary:
            for name, values in signals.items():
                write_array(temporary / file_name(name), values)
            write_json(temporary / _NOTES, to_jsonable(notes))
            written = [*map(file_name, signals), _NOTES]
            write_json(temporary / _CHECKSUMS, {name: sha256_of(temporary / name) for name in written})

    def damage(self, block: int) -> list[Damage]:
        """What is missing or damaged in a block's folder; empty when it is whole."""
        folder = self.path(block)
        try:
            checksums = read_json(folder / _CHECKSUMS)
        except (InputError, CorruptBankError):
            checksums = {}
        expected = [*map(file_name, self.signal_names), _NOTES]
        wanted = {f"{folder.relative_to(self.folder)}/{name}": checksums.get(name) for name in expected}
        return file_damage(self.folder, wanted, block)

    def rows(self, block: int, name: str) -> AnyArray:
        """One signal of a block that is whole; (models, checkpoints, columns[, classes])."""
        return map_array(self.path(block) / file_name(name))

    def notes(self, block: int) -> BlockNotes:
        """How a block that is whole was trained."""
        path = self.path(block) / _NOTES
        return parse_as(BlockNotes, read_json(path), path)

    def remove(self) -> None:
        """Removes all of them."""
        shutil.rmtree(self.folder / "blocks", ignore_errors=True)


def join_blocks(folder: Path, name: str, n_models: int, blocks: Iterable[AnyArray]) -> SignalFile:
    """Writes one signal from its blocks, in order; returns what the manifest says about the file."""
    rest = iter(blocks)
    first = next(rest)
    shape = (n_models, *first.shape[1:])
    checksums = []
    with atomic_file(_path(folder, name)) as file:
        file.write(npy_header(first.dtype, shape))
        for rows in chain([first], rest):
            checksums.append(sha256_of_array(rows))
            for part in row_blocks(rows):
                file.write(np.ascontiguousarray(rows[part]).data)
    return SignalFile(first.dtype.str, shape, tuple(checksums))


def read_block(folder: Path, name: str, signal: SignalFile, block: int, models: IntArray) -> AnyArray:
    """The rows of one block, checked; (models, checkpoints, columns[, classes])."""
    path, dtype = _path(folder, name), np.dtype(signal.dtype)
    offset = len(npy_header(dtype, signal.shape)) + int(models[0]) * signal.row_bytes
    # Not a memory map of the whole: when the end of the file is gone, other blocks are still readable.
    if not path.is_file() or path.stat().st_size < offset + len(models) * signal.row_bytes:
        raise CorruptBankError(f"{path}: block {block} is cut off or missing; {REPAIR}")
    n_numbers = len(models) * signal.row_bytes // dtype.itemsize
    flat = np.fromfile(path, dtype, n_numbers, offset=offset)
    if sha256_of_array(flat) != signal.sha256[block]:
        raise CorruptBankError(f"{folder}: {_mismatch(path.relative_to(folder), block, models)}; {REPAIR}")
    return flat.reshape(len(models), *signal.row_shape)


def signal_damage(folder: Path, name: str, signal: SignalFile, blocks: Sequence[IntArray]) -> list[Damage]:
    """What is damaged in one signal's file, block by block."""
    path = _path(folder, name)
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
                damage.append(_mismatch(path.relative_to(folder), block, models))
        if file.read(1):
            damage.append(Damage(relative, "is longer than it should be"))
    return damage


def map_signal(folder: Path, name: str, shape: tuple[int, int, int]) -> AnyArray:
    """A signal, memory-mapped; `shape` is the (models, checkpoints, columns) that it must have."""
    path = _path(folder, name)
    try:
        array = map_array(path)
    except ArrayFileError as error:
        raise CorruptBankError(f"{path} {error}; {REPAIR}") from error
    if array.shape[:3] != shape or array.dtype.kind not in "biuf":
        raise CorruptBankError(f"{path} holds {array.dtype} {array.shape}; {REPAIR}")
    return array


def _path(folder: Path, name: str) -> Path:
    return folder / "signals" / file_name(name)


def _mismatch(file: Path, block: int, models: IntArray) -> Damage:
    what = f"block {block} (models {models[0]} to {models[-1]}) does not match its checksum"
    return Damage(str(file), what, block)
