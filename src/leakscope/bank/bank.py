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
from typing import Any

import numpy as np

from leakscope.bank.identity import Identity, differences
from leakscope.bank.run_folder import read_json
from leakscope.bank.storage import (
    atomic_file,
    atomic_folder,
    sha256_of,
    storage_errors,
    sweep_temporaries,
    write_array,
    write_json,
)
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.types import AnyArray, Design, IntArray, Signals

IDENTITY, MANIFEST = "identity.json", "manifest.json"


@dataclass(frozen=True)
class Damage:
    """Something on disk that does not match its checksum."""

    file: str
    what: str
    block: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


class Bank:
    """A run folder's models, design and signals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity: dict[str, Any] = read_json(folder / IDENTITY)

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
    def create(cls, folder: Path, identity: Identity, design: Design, labels: AnyArray) -> Bank:
        """A new bank, or the one already there if it is the same one; never another."""
        if (folder / IDENTITY).exists():
            differing = differences(read_json(folder / IDENTITY), identity.as_dict())
            if differing:
                raise BankMismatchError(
                    f"{folder} holds a different bank ({'; '.join(differing[:4])}); "
                    "choose another folder with --out, or remove this one"
                )
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            sweep_temporaries(folder)
        bank_files = {"design.npy": design.in_mask, "columns.npy": design.columns, "labels.npy": labels}
        for name, array in bank_files.items():
            if array is not None and not _holds(folder / name, array):
                write_array(folder / name, array)
        if not (folder / IDENTITY).exists():
            write_json(folder / IDENTITY, identity.as_dict())
        return cls(folder)

    @property
    def is_complete(self) -> bool:
        """True when the manifest, which is written last, is there."""
        return (self.folder / MANIFEST).exists()

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of a complete bank."""
        return read_json(self.folder / MANIFEST)

    @property
    def blocks(self) -> list[IntArray]:
        """The model indices of each block."""
        n_models, size = self.identity["design"]["models"], self.identity["block_size"]
        return [np.arange(a, min(a + size, n_models)) for a in range(0, n_models, size)]

    @property
    def lost(self) -> dict[int, int]:
        """Models that stopped being finite -> the epoch."""
        return {int(m): int(e) for m, e in self.manifest["lost_models"].items()}

    def pending(self) -> list[int]:
        """Numbers of the blocks that are not, or no longer, safely on disk."""
        bad: set[int | None] = {d.block for d in self.damage()} if self.is_complete else set()
        if self.is_complete:
            return [b for b in sorted(x for x in bad if x is not None) if not self._whole_folder(b)]
        return [b for b in range(len(self.blocks)) if not self._whole_folder(b)]

    def add_block(self, block: int, signals: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        """Commits one block's answers; all of its files appear at once."""
        folder = self._block_folder(block)
        shutil.rmtree(folder, ignore_errors=True)
        with atomic_folder(folder) as temporary:
            for name, values in signals.items():
                write_array(temporary / f"{name}.npy", values)
            checksums = {name: _sha256(values) for name, values in signals.items()}
            write_json(temporary / "block.json", {"sha256": checksums, **notes})

    def finish(self, about: dict[str, Any]) -> None:
        """Joins the blocks into one array a signal, then writes the manifest and drops the blocks."""
        notes = [self._block_notes(b) for b in range(len(self.blocks))]
        signals = {name: self._join(name) for name in self.identity["signals"]}
        lost = {str(m): e for note in notes for m, e in note["lost_models"].items()}
        files = [n for n in ("identity.json", "design.npy", "columns.npy", "labels.npy")
                 if (self.folder / n).exists()]  # fmt: skip
        manifest = {
            "status": "complete",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            **about,
            "lost_models": lost,
            "blocks": [{k: v for k, v in note.items() if k != "sha256"} for note in notes],
            "files": {name: sha256_of(self.folder / name) for name in files},
            "signals": signals,
        }
        write_json(self.folder / MANIFEST, manifest)
        shutil.rmtree(self.folder / "blocks", ignore_errors=True)

    def damage(self) -> list[Damage]:
        """Everything in a complete bank that does not match its manifest."""
        found = [
            Damage(name, "is missing" if not (self.folder / name).exists() else "does not match its checksum")
            for name, sha in self.manifest["files"].items()
            if not (self.folder / name).exists() or sha256_of(self.folder / name) != sha
        ]
        for name, entry in self.manifest["signals"].items():
            found += self._signal_damage(name, entry)
        return found

    def design(self) -> Design:
        """Who was in which training set."""
        columns = self.folder / "columns.npy"
        return Design(np.load(self.folder / "design.npy"), np.load(columns) if columns.exists() else None)

    def signals(self) -> Signals:
        """The answers, memory-mapped; (models, checkpoints, columns)."""
        arrays = {name: np.load(self._signal_path(name), mmap_mode="r") for name in self.identity["signals"]}
        labels = np.load(self.folder / "labels.npy")
        columns = self.design().columns
        epochs = tuple(self.identity["recipe"]["evaluated_epochs"])
        return Signals(arrays, epochs, labels if columns is None else labels[columns])

    def _signal_damage(self, name: str, entry: dict[str, Any]) -> list[Damage]:
        path = self._signal_path(name)
        relative = str(path.relative_to(self.folder))
        if not path.exists():
            return [Damage(relative, "is missing", b) for b in range(len(self.blocks))]
        header = _header(np.dtype(entry["dtype"]), tuple(entry["shape"]))
        row_bytes = int(np.dtype(entry["dtype"]).itemsize * np.prod(entry["shape"][1:], dtype=np.int64))
        found = []
        with path.open("rb") as file:
            if file.read(len(header)) != header:
                found.append(Damage(relative, "has a damaged header"))
            file.seek(len(header))
            for block, models in enumerate(self.blocks):
                content = file.read(row_bytes * len(models))
                if hashlib.sha256(content).hexdigest() != entry["sha256"][block]:
                    what = f"block {block} (models {models[0]} to {models[-1]}) does not match its checksum"
                    found.append(Damage(relative, what, block))
            if file.read(1):
                found.append(Damage(relative, "is longer than it should be"))
        return found

    def _join(self, name: str) -> dict[str, Any]:
        """Writes `signals/NAME.npy` from the block folders and, where those are gone, the old file."""
        first = self._block_rows(name, 0)
        shape = (self.identity["design"]["models"], *first.shape[1:])
        checksums = []
        with atomic_file(self._signal_path(name)) as file:
            file.write(_header(first.dtype, shape))
            for block in range(len(self.blocks)):
                rows = self._block_rows(name, block)
                checksums.append(_sha256(rows))
                file.write(np.ascontiguousarray(rows).data)
        return {"dtype": first.dtype.str, "shape": list(shape), "sha256": checksums}

    def _block_rows(self, name: str, block: int) -> AnyArray:
        if self._block_folder(block).exists():
            rows: AnyArray = np.load(self._block_folder(block) / f"{name}.npy")
            return rows
        entry = self.manifest["signals"][name]
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        offset = len(_header(dtype, shape))
        whole = np.memmap(self._signal_path(name), dtype=dtype, mode="r", offset=offset, shape=shape)
        return np.array(whole[self.blocks[block]])

    def _block_notes(self, block: int) -> dict[str, Any]:
        if self._block_folder(block).exists():
            return read_json(self._block_folder(block) / "block.json")
        notes: dict[str, Any] = self.manifest["blocks"][block]
        return notes

    def _whole_folder(self, block: int) -> bool:
        """True when the block's folder is there and its files match their checksums."""
        folder = self._block_folder(block)
        try:
            checksums = read_json(folder / "block.json")["sha256"]
            return all(_sha256(np.load(folder / f"{n}.npy")) == sha for n, sha in checksums.items())
        except (OSError, ValueError, InputError, CorruptBankError):
            return False

    def _block_folder(self, block: int) -> Path:
        return self.folder / "blocks" / f"{block:05d}"

    def _signal_path(self, name: str) -> Path:
        return self.folder / "signals" / f"{name}.npy"


def _holds(path: Path, array: AnyArray) -> bool:
    try:
        stored = np.load(path)
    except (OSError, ValueError):
        return False
    return stored.dtype == array.dtype and np.array_equal(stored, array)


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The `.npy` header numpy writes for such an array."""
    import io

    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": dtype.str, "fortran_order": False, "shape": tuple(int(n) for n in shape)}
    )
    return file.getvalue()


def _sha256(array: AnyArray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
