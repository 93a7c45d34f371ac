"""A bank: the models' answers on disk, block by block, then as one array a signal.

While it grows, every block of models is a folder `blocks/NNNNN` that was renamed into place whole.
When all are there they are joined into `signals/NAME.npy`, and `manifest.json`, written last, says
so and keeps a checksum of every block of every file. A damaged block is noticed, trained again and
put back; the others are kept.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.identity import AnyIdentity, differences
from leakscope.bank.run_folder import read_json
from leakscope.bank.validation import check_fit, checked_identity, checked_manifest
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.npy import ArrayFileError, load_array, map_array
from leakscope.disk.scratch import Scratch
from leakscope.disk.storage import (
    atomic_file,
    atomic_folder,
    holds_array,
    json_bytes,
    npy_header,
    refuse_links,
    sha256_of,
    storage_errors,
    sweep_temporaries,
    write_array,
    write_json,
)
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.signals.registry import file_name
from leakscope.types import Design, Signals

IDENTITY, MANIFEST = "identity.json", "manifest.json"
_CHECKSUMS, _NOTES = "block.json", "notes.json"
_MAPPED_FROM = 1 << 25
"""Bytes; smaller files are read into memory."""
_RUN_AGAIN = "run the command that made the bank again, which repairs it"


@dataclass(frozen=True)
class Damage:
    """Something on disk that does not match its checksum."""

    file: str
    what: str
    block: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


class Block(NamedTuple):
    """One block of models: name -> answers (models, checkpoints, columns), and notes of its training."""

    signals: dict[str, AnyArray]
    notes: dict[str, Any]


class Bank:
    """A run folder's models, design and signals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity: dict[str, Any] = checked_identity(read_json(folder / IDENTITY), folder / IDENTITY)

    @classmethod
    def open(cls, folder: Path) -> Bank:
        """An existing complete bank, to read from."""
        if not (folder / IDENTITY).exists():
            raise InputError(f"{folder} holds no bank (no {IDENTITY}); name a run folder")
        bank = cls(folder)
        if not bank.is_complete:
            raise InputError(f"{folder} holds an unfinished bank; run the same command again to finish it")
        return bank

    @classmethod
    def create(cls, folder: Path, identity: AnyIdentity, design: Design, labels: AnyArray) -> Bank:
        """A new bank, or the one already there if it is the same one; never another."""
        _check_same_bank(folder, identity)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            refuse_links(folder)
            sweep_temporaries(folder)
            if design.columns is None:  # a run killed before it wrote its identity may have left some
                (folder / "columns.npy").unlink(missing_ok=True)
        bank_files = {"design.npy": design.in_mask, "columns.npy": design.columns, "labels.npy": labels}
        for name, array in bank_files.items():
            if array is not None and not holds_array(folder / name, array):
                write_array(folder / name, array)
        if not (folder / IDENTITY).is_file() or sha256_of(folder / IDENTITY) != identity.sha256:
            write_json(folder / IDENTITY, identity.as_dict())
        bank = cls(folder)
        if bank.is_complete and (folder / "blocks").exists() and not bank.damage():
            shutil.rmtree(folder / "blocks", ignore_errors=True)  # finished, and killed before it tidied up
        return bank

    @property
    def is_complete(self) -> bool:
        """True when the manifest, which is written last, is there."""
        return (self.folder / MANIFEST).exists()

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of a complete bank."""
        return _read_manifest(self.folder)

    def _fitting_manifest(self) -> dict[str, Any]:
        """The manifest, once it speaks of the bank that the identity names."""
        manifest = self.manifest
        check_fit(self.identity, manifest, len(self.blocks), self.folder / MANIFEST)
        return manifest

    @property
    def blocks(self) -> list[IntArray]:
        """The model indices of each block; a merged bank lists the size of every one."""
        n_models, size = self.identity["design"]["models"], self.identity["block_size"]
        if isinstance(size, list):
            return np.split(np.arange(n_models), np.cumsum(size)[:-1])
        return [np.arange(a, min(a + size, n_models)) for a in range(0, n_models, size)]

    @property
    def lost(self) -> dict[int, int]:
        """Models that stopped being finite -> the epoch."""
        return {int(m): int(e) for m, e in self._fitting_manifest()["lost_models"].items()}

    def pending(self) -> list[int]:
        """Numbers of the blocks that are not, or no longer, safely on disk."""
        wanted = range(len(self.blocks))
        if self.is_complete:
            damaged = {d.block for d in self.damage()}
            return [b for b in wanted if b in damaged and self._folder_damage(b)]
        return [b for b in wanted if self._folder_damage(b)]

    def add_block(self, block: int, signals: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        """Commits one block's answers; all of its files appear at once."""
        folder = self._block_folder(block)
        shutil.rmtree(folder, ignore_errors=True)
        with atomic_folder(folder) as temporary:
            for name, values in signals.items():
                write_array(temporary / file_name(name), values)
            write_json(temporary / _NOTES, notes)
            written = [*map(file_name, signals), _NOTES]
            write_json(temporary / _CHECKSUMS, {name: sha256_of(temporary / name) for name in written})

    def holds_block(self, block: int) -> bool:
        """True when the block was committed, damaged since or not."""
        return self.is_complete or self._block_folder(block).exists()

    def read_block(self, block: int) -> Block:
        """A committed block, checked against its checksums; raises CorruptBankError where it differs."""
        in_folder, names = not self.is_complete, self.identity["signals"]
        found = self._folder_damage(block) if in_folder else []
        signals = {} if found else {name: self._block_rows(name, block, in_folder) for name in names}
        if not in_folder:
            found = self._row_damage(block, signals)
        if found:
            raise CorruptBankError(
                f"{self.folder}: {found[0]}; run the command that made it again, which repairs it"
            )
        return Block(signals, self._block_notes(block, in_folder))

    def finish(self, about: dict[str, Any]) -> None:
        """Joins the blocks into one array a signal, then writes the manifest and drops the blocks."""
        in_folder = [not self._folder_damage(b) for b in range(len(self.blocks))]
        if not self.is_complete and not all(in_folder):
            raise CorruptBankError(
                f"{self._block_folder(in_folder.index(False))} is missing or damaged; "
                "run the same command again: it trains that block anew"
            )
        notes = [self._block_notes(b, whole) for b, whole in enumerate(in_folder)]
        signals = {name: self._join(name, in_folder) for name in self.identity["signals"]}
        lost = {str(m): e for note in notes for m, e in note["lost_models"].items()}
        files = [n for n in ("identity.json", "design.npy", "columns.npy", "labels.npy")
                 if (self.folder / n).exists()]  # fmt: skip
        manifest = {
            "status": "complete",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(sum(note.get("seconds", 0.0) for note in notes), 3),  # over all runs it took
            **about,
            "lost_models": lost,
            "blocks": notes,
            "files": {name: sha256_of(self.folder / name) for name in files},
            "signals": signals,
        }
        write_json(self.folder / MANIFEST, {**manifest, "sha256": _sha256_of_json(manifest)})
        shutil.rmtree(self.folder / "blocks", ignore_errors=True)

    def damage(self) -> list[Damage]:
        """What does not match its checksum: files of a finished bank, block folders of an unfinished one."""
        if not self.is_complete:
            there = [b for b in range(len(self.blocks)) if self._block_folder(b).exists()]
            return [damage for b in there for damage in self._folder_damage(b)]
        found = self.file_damage()
        if any(damage.file == IDENTITY for damage in found):
            return found  # it says how the signals are laid out
        for name, entry in self._fitting_manifest()["signals"].items():
            found += self._signal_damage(name, entry)
        return found

    @property
    def scratch(self) -> Scratch:
        """Where arrays of one number a model and record lie while the bank is judged."""
        return Scratch(self.folder)

    def file_damage(self) -> list[Damage]:
        """Damage of a finished bank's identity, design and labels; the signals are not read."""
        return _file_damage(self.folder, self.manifest["files"])

    def design(self) -> Design:
        """Who was in which training set."""
        columns = self._columns()
        in_mask = self._array("design.npy", "b", self._columns_shape)
        return Design(in_mask, columns)

    def signals(self) -> Signals:
        """The answers, memory-mapped; (models, checkpoints, columns)."""
        arrays = {name: self._mapped(name) for name in self.identity["signals"]}
        labels, columns = self.labels(), self._columns()
        epochs = tuple(self.identity["recipe"]["evaluated_epochs"])
        if columns is not None and columns.size and not 0 <= columns.min() <= columns.max() < len(labels):
            raise CorruptBankError(f"{self.folder / 'columns.npy'} names records that are not there")
        return Signals(arrays, epochs, labels if columns is None else labels[columns])

    def labels(self) -> AnyArray:
        """The labels of the records; one a record, also where models have columns of their own."""
        labels = self._array("labels.npy", "if", None)
        if labels.ndim != 1 or (self._columns() is None and len(labels) != self._columns_shape[1]):
            raise CorruptBankError(f"{self.folder / 'labels.npy'} has shape {labels.shape}, not one a record")
        return labels

    @property
    def _columns_shape(self) -> tuple[int, int]:
        return self.identity["design"]["models"], self.identity["design"]["columns"]

    def _columns(self) -> IntArray | None:
        if not (self.folder / "columns.npy").exists():
            return None
        return self._array("columns.npy", "i", self._columns_shape)

    def _array(self, name: str, kinds: str, shape: tuple[int, ...] | None) -> AnyArray:
        """Design or labels, of these kinds of numbers and of this shape."""
        path = self.folder / name
        is_large = path.is_file() and path.stat().st_size > _MAPPED_FROM
        try:
            array = map_array(path) if is_large else load_array(path)
        except ArrayFileError as error:
            raise CorruptBankError(f"{self.folder / name} {error}; {_RUN_AGAIN}") from error
        if array.dtype.kind not in kinds or (shape is not None and array.shape != shape):
            raise CorruptBankError(f"{self.folder / name} holds {array.dtype} {array.shape}; {_RUN_AGAIN}")
        return array

    def _mapped(self, name: str) -> AnyArray:
        """A signal, memory-mapped; (models, checkpoints, columns[, classes])."""
        path, (n_models, n_columns) = self._signal_path(name), self._columns_shape
        try:
            array = map_array(path)
        except ArrayFileError as error:
            raise CorruptBankError(f"{path} {error}; {_RUN_AGAIN}") from error
        wanted = (n_models, len(self.identity["recipe"]["evaluated_epochs"]), n_columns)
        if array.shape[:3] != wanted or array.dtype.kind not in "biuf":
            raise CorruptBankError(f"{path} holds {array.dtype} {array.shape}; {_RUN_AGAIN}")
        return array

    def _signal_damage(self, name: str, entry: dict[str, Any]) -> list[Damage]:
        path = self._signal_path(name)
        relative = str(path.relative_to(self.folder))
        if not path.is_file():
            return [Damage(relative, "is missing", b) for b in range(len(self.blocks))]
        header = npy_header(np.dtype(entry["dtype"]), tuple(entry["shape"]))
        row_bytes = int(np.dtype(entry["dtype"]).itemsize * np.prod(entry["shape"][1:], dtype=np.int64))
        found, size = [], path.stat().st_size
        with path.open("rb") as file:
            if file.read(len(header)) != header:
                found.append(Damage(relative, "has a damaged header"))
            file.seek(len(header))
            for block, models in enumerate(self.blocks):
                content = file.read(min(row_bytes * len(models), size))  # no more than there can be
                if hashlib.sha256(content).hexdigest() != entry["sha256"][block]:
                    what = f"block {block} (models {models[0]} to {models[-1]}) does not match its checksum"
                    found.append(Damage(relative, what, block))
            if file.read(1):
                found.append(Damage(relative, "is longer than it should be"))
        return found

    def _join(self, name: str, in_folder: list[bool]) -> dict[str, Any]:
        """Writes `signals/NAME.npy` from the block folders and, where those are gone, the old file."""
        first = self._block_rows(name, 0, in_folder[0])
        shape = (self.identity["design"]["models"], *first.shape[1:])
        checksums = []
        with atomic_file(self._signal_path(name)) as file:
            file.write(npy_header(first.dtype, shape))
            for block, whole in enumerate(in_folder):
                rows = self._block_rows(name, block, whole)
                checksums.append(_sha256(rows))
                for part in row_blocks(rows):
                    file.write(np.ascontiguousarray(rows[part]).data)
        return {"dtype": first.dtype.str, "shape": list(shape), "sha256": checksums}

    def _block_rows(self, name: str, block: int, in_folder: bool) -> AnyArray:
        """The block's rows of one signal, read from its folder or else from the joined file."""
        if in_folder:
            return map_array(self._block_folder(block) / file_name(name))  # its checksum was looked at
        entry, models = self._fitting_manifest()["signals"][name], self.blocks[block]
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        row = int(np.prod(shape[1:], dtype=np.int64))  # numbers
        offset = len(npy_header(dtype, shape)) + int(models[0]) * row * dtype.itemsize
        # Not a memory map of the whole: the file may have lost its end, and that is another block's.
        path, n_numbers = self._signal_path(name), row * len(models)
        if not path.is_file() or path.stat().st_size < offset + n_numbers * dtype.itemsize:
            raise CorruptBankError(f"{path}: block {block} is cut off or missing; {_RUN_AGAIN}")
        flat = np.fromfile(path, dtype, n_numbers, offset=offset)
        return flat.reshape(len(models), *shape[1:])

    def _row_damage(self, block: int, signals: dict[str, AnyArray]) -> list[Damage]:
        """Which rows of a finished bank's block are not those the manifest vouches for."""
        entries, models = self._fitting_manifest()["signals"], self.blocks[block]
        what = f"block {block} (models {models[0]} to {models[-1]}) does not match its checksum"
        return [
            Damage(str(self._signal_path(name).relative_to(self.folder)), what, block)
            for name, rows in signals.items()
            if _sha256(rows) != entries[name]["sha256"][block]
        ]

    def _block_notes(self, block: int, in_folder: bool) -> dict[str, Any]:
        if in_folder:
            return read_json(self._block_folder(block) / _NOTES)
        notes: dict[str, Any] = self._fitting_manifest()["blocks"][block]
        return notes

    def _folder_damage(self, block: int) -> list[Damage]:
        """What is missing or wrong in a block's folder; empty when all of it is safely there."""
        folder = self._block_folder(block)
        try:
            checksums = read_json(folder / _CHECKSUMS)
        except (InputError, CorruptBankError):
            checksums = {}
        expected = [*map(file_name, self.identity["signals"]), _NOTES]
        wanted = {f"{folder.relative_to(self.folder)}/{name}": checksums.get(name) for name in expected}
        return _file_damage(self.folder, wanted, block)

    def _block_folder(self, block: int) -> Path:
        return self.folder / "blocks" / f"{block:05d}"

    def _signal_path(self, name: str) -> Path:
        return self.folder / "signals" / file_name(name)


def _check_same_bank(folder: Path, identity: AnyIdentity) -> None:
    """Raises when the folder holds another bank, or one of which nobody can say whose it is."""
    if (folder / MANIFEST).exists() and _read_manifest(folder)["files"][IDENTITY] == identity.sha256:
        return  # whatever has happened to identity.json since, this is the bank
    try:
        found = "; ".join(differences(read_json(folder / IDENTITY), identity.as_dict())[:4])
    except (InputError, CorruptBankError):  # not there, or damaged
        has_models = (folder / MANIFEST).exists() or (folder / "blocks").exists()
        found = f"its models have no {IDENTITY} that says what they are" if has_models else ""
    if found:
        raise BankMismatchError(
            f"{folder} holds a different bank ({found}); choose another folder with --out, or remove this one"
        )


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = read_json(folder / MANIFEST)
        is_whole = manifest.pop("sha256", None) == _sha256_of_json(manifest)
    except CorruptBankError as error:
        raise CorruptBankError(f"{error}; remove it to train the bank anew") from error
    except ValueError:  # NaN, which ours never has
        is_whole = False
    if not is_whole:
        raise CorruptBankError(
            f"{folder / MANIFEST} does not match its own checksum, so nothing in the bank can be checked; "
            "remove it to train the bank anew"
        )
    return checked_manifest(manifest, folder / MANIFEST)


def _file_damage(folder: Path, checksums: dict[str, Any], block: int | None = None) -> list[Damage]:
    """The named files that are missing or do not match their checksum."""
    found = []
    for name, sha in checksums.items():
        if not (folder / name).is_file():
            found.append(Damage(name, "is missing", block))
        elif sha256_of(folder / name) != sha:
            found.append(Damage(name, "does not match its checksum", block))
    return found


def _sha256_of_json(value: dict[str, Any]) -> str:
    return hashlib.sha256(json_bytes(value)).hexdigest()


def _sha256(array: AnyArray) -> str:
    sha = hashlib.sha256()
    for rows in row_blocks(array):
        sha.update(np.ascontiguousarray(array[rows]).data)
    return sha.hexdigest()
