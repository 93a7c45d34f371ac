"""A bank: the signals of a population of models on disk, block by block, then as one array per signal.

When all blocks are there, they are joined, and `manifest.json` is written last, with a checksum of every
block of every file. A damaged block is noticed and trained again; the others stay.
"""

from __future__ import annotations

import shutil
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.damage import REPAIR, Damage, file_damage
from leakscope.bank.identity import Identity, other_folder, parse_identity, refuse_other_code, without_code
from leakscope.bank.manifest import (
    BANK_FILES,
    MANIFEST,
    BlockNotes,
    Manifest,
    Provenance,
    SignalFile,
    check_fit,
    read_manifest,
    write_manifest,
)
from leakscope.bank.parts import BlockParts, Part, joined
from leakscope.bank.run_folder import differences, read_json, to_jsonable
from leakscope.bank.signal_files import BlockFolders, join_blocks, map_signal, read_block, signal_damage
from leakscope.disk.npy import ArrayFileError, load_array, map_array
from leakscope.disk.saved_training import STATES
from leakscope.disk.scratch import Scratch
from leakscope.disk.storage import (
    create_folder,
    holds_array,
    refuse_irregular,
    sha256_of,
    storage_errors,
    sweep_temporaries,
    write_array,
    write_json,
)
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.types import Design, Signals

IDENTITY = "identity.json"
_MAPPED_FROM = 1 << 25
"""Bytes; smaller files are read into memory."""


class Block(NamedTuple):
    """One block: name -> signal (models, checkpoints, columns[, classes]), and how it was trained."""

    signals: dict[str, AnyArray]
    notes: BlockNotes


class Bank:
    """The models' signals in a run folder, with their design and labels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity: Identity = parse_identity(read_json(folder / IDENTITY), folder / IDENTITY)
        self._folders = BlockFolders(folder, self.identity.signals)
        self._parts = BlockParts(folder, self.identity.sha256, self.identity.signals)

    @classmethod
    def open(cls, folder: Path) -> Bank:
        """An existing complete bank, to read from."""
        if not (folder / IDENTITY).exists():
            raise InputError(f"{folder} holds no bank (no {IDENTITY}); name a run folder")
        bank = cls(folder)
        if not bank.is_complete:
            raise InputError(
                f"{folder} holds an unfinished bank; run the command that made it again to finish it"
            )
        return bank

    @classmethod
    def create(
        cls,
        folder: Path,
        identity: Identity,
        design: Design,
        labels: AnyArray,
        reuse: bool | None = None,
    ) -> Bank:
        """A new bank, or the one already in the folder if it has this identity.

        Args:
            folder: the bank's folder.
            identity: of the wanted bank.
            design: of the wanted bank.
            labels: of the records.
            reuse: whether the user vouches for the code of models in the folder; None: that is not offered.

        Raises:
            BankMismatchError: the folder holds models of another bank, or of other code.
        """
        identity = _same_bank(folder, identity, reuse)
        with storage_errors(folder):
            create_folder(folder)
            refuse_irregular(folder)
            sweep_temporaries(folder)
            _write_design(folder, design)
        if not holds_array(folder / "labels.npy", labels):
            write_array(folder / "labels.npy", labels)
        if not (folder / IDENTITY).is_file() or sha256_of(folder / IDENTITY) != identity.sha256:
            write_json(folder / IDENTITY, to_jsonable(identity))
        bank = cls(folder)
        if bank.is_complete and bank._has_leftovers() and not bank.damage():
            bank._remove_leftovers()  # an earlier run was killed before it did
        return bank

    @property
    def is_complete(self) -> bool:
        """True when the manifest, which is written last, is there."""
        return (self.folder / MANIFEST).exists()

    @property
    def manifest(self) -> Manifest:
        """The manifest of a complete bank."""
        manifest = read_manifest(self.folder)
        check_fit(self.identity, manifest, self.folder / MANIFEST)
        return manifest

    @property
    def blocks(self) -> list[IntArray]:
        """The model indices of each block."""
        return self.identity.blocks

    @property
    def diverged(self) -> dict[int, int]:
        """Models that diverged -> the epoch at which they were no longer finite."""
        return dict(self.manifest.diverged_models)

    @property
    def scratch(self) -> Scratch:
        """Where arrays of one number per model and record go while the bank is evaluated."""
        return Scratch(self.folder)

    def pending(self) -> list[int]:
        """Numbers of the blocks that are missing or damaged on disk."""
        wanted = range(len(self.blocks))
        damaged = {d.block for d in self.damage()} if self.is_complete else wanted
        return [b for b in wanted if b in damaged and self._folders.damage(b)]

    def add_block(self, block: int, signals: dict[str, AnyArray], notes: BlockNotes | None = None) -> None:
        """Commits the signals of one block; all of its files appear at once."""
        self._folders.write(block, signals, notes or BlockNotes())
        self._parts.remove(block)

    def missing_models(self, block: int) -> list[int]:
        """The models of a pending block that no part on disk holds."""
        stored = self._parts.models(block)
        return [model for model in self.blocks[block].tolist() if model not in stored]

    def add_part(self, block: int, part: Part) -> None:
        """Stores finished models of a block; the last of them commits it."""
        self._parts.write(block, part)
        if self._parts.count(block) >= len(self.blocks[block]):
            self.commit_parts(block)

    def commit_parts(self, block: int) -> None:
        """Makes the block of its parts, when they are all there."""
        parts = self._parts.read(block)
        if sum(len(part.models) for part in parts) == len(self.blocks[block]):
            whole = joined(parts)
            self.add_block(block, whole.signals, whole.notes)

    def n_models_saved(self) -> int:
        """How many finished models are on disk."""
        if self.is_complete:
            return self.identity.design.models
        n_in_blocks = sum(len(m) for b, m in enumerate(self.blocks) if self._folders.path(b).exists())
        return n_in_blocks + sum(self._parts.count(b) for b in range(len(self.blocks)))

    def has_block(self, block: int) -> bool:
        """True when the block was committed, damaged since or not."""
        return self.is_complete or self._folders.path(block).exists()

    def read_block(self, block: int) -> Block:
        """A committed block, checked against its checksums; raises CorruptBankError where it differs."""
        if self.is_complete:
            manifest = self.manifest
            signals = {name: self._rows(manifest, name, block) for name in manifest.signals}
            return Block(signals, manifest.blocks[block])
        for damage in self._folders.damage(block):
            raise CorruptBankError(f"{self.folder}: {damage}; {REPAIR}")
        signals = {name: self._folders.rows(block, name) for name in self.identity.signals}
        return Block(signals, self._folders.notes(block))

    def finish(self, provenance: Provenance | None = None) -> None:
        """Joins the blocks into one array per signal, writes the manifest, then removes the blocks."""
        earlier = self.manifest if self.is_complete else None
        in_folder = [not self._folders.damage(b) for b in range(len(self.blocks))]
        if earlier is None and not all(in_folder):
            raise CorruptBankError(
                f"{self._folders.path(in_folder.index(False))} is missing or damaged; "
                "run the same command again: it trains that block anew"
            )
        notes = [
            self._folders.notes(b) if earlier is None or is_there else earlier.blocks[b]
            for b, is_there in enumerate(in_folder)
        ]
        signals = {name: self._join(name, in_folder, earlier) for name in self.identity.signals}
        made = provenance or Provenance()
        manifest = Manifest(
            **{field.name: getattr(made, field.name) for field in fields(made)},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(sum(note.seconds for note in notes), 3),
            diverged_models={m: epoch for note in notes for m, epoch in note.diverged_models.items()},
            blocks=tuple(notes),
            files={n: sha256_of(self.folder / n) for n in BANK_FILES if (self.folder / n).exists()},
            signals=signals,
        )
        write_manifest(self.folder, manifest)
        self._remove_leftovers()

    def damage(self) -> list[Damage]:
        """What does not match its checksum: files of a complete bank, block folders of an unfinished one."""
        if not self.is_complete:
            there = [b for b in range(len(self.blocks)) if self._folders.path(b).exists()]
            return [damage for b in there for damage in self._folders.damage(b)]
        damage = self.file_damage()
        if any(one.file == IDENTITY for one in damage):
            return damage  # the identity says how the signals are laid out
        for name, signal in self.manifest.signals.items():
            damage += signal_damage(self.folder, name, signal, self.blocks)
        return damage

    def file_damage(self) -> list[Damage]:
        """Damage of a complete bank's identity, design and labels; the signals are not read."""
        return file_damage(self.folder, read_manifest(self.folder).files)

    def design(self) -> Design:
        """Which records each model was trained on."""
        return Design(self._array("design.npy", "b", self._mask_shape), self._columns(), units=self._units())

    def signals(self) -> Signals:
        """The signals, memory-mapped; (models, checkpoints, columns)."""
        (n_models, n_columns), epochs = self._mask_shape, self.identity.evaluated_epochs
        shape = (n_models, len(epochs), n_columns)
        arrays = {n: map_signal(self.folder, n, shape) for n in self.identity.signals}
        labels, columns = self.labels(), self._columns()
        if columns is not None and columns.size and not 0 <= columns.min() <= columns.max() < len(labels):
            raise CorruptBankError(f"{self.folder / 'columns.npy'} names records that do not exist")
        return Signals(arrays, epochs, labels if columns is None else labels[columns])

    def labels(self) -> AnyArray:
        """The labels of the records; one per record, also where models have columns of their own."""
        labels = self._array("labels.npy", "if", None)
        if labels.ndim != 1 or (self._columns() is None and len(labels) != self._mask_shape[1]):
            raise CorruptBankError(
                f"{self.folder / 'labels.npy'} has shape {labels.shape}, not one label per record"
            )
        return labels

    @property
    def _mask_shape(self) -> tuple[int, int]:
        return self.identity.design.models, self.identity.design.columns

    def _has_leftovers(self) -> bool:
        return self._folders.exist() or (self.folder / STATES).exists()

    def _remove_leftovers(self) -> None:
        """Removes what only an unfinished bank needs: blocks, and states of models in training."""
        self._folders.remove()
        shutil.rmtree(self.folder / STATES, ignore_errors=True)

    def _columns(self) -> IntArray | None:
        if not (self.folder / "columns.npy").exists():
            return None
        return self._array("columns.npy", "i", self._mask_shape)

    def _units(self) -> IntArray | None:
        if self.identity.design.units is None:
            return None
        units = self._array("units.npy", "i", self._mask_shape[1:])
        _, first = np.unique(units, return_index=True)
        n_units = self.identity.design.units
        is_in_order = len(first) == n_units and bool((np.diff(first) > 0).all())
        if not is_in_order or units.min() or units.max() != n_units - 1:
            raise CorruptBankError(f"{self.folder / 'units.npy'} does not number the units; {REPAIR}")
        return units

    def _array(self, name: str, kinds: str, shape: tuple[int, ...] | None) -> AnyArray:
        """Design or labels, of these kinds of numbers and of this shape."""
        path = self.folder / name
        is_large = path.is_file() and path.stat().st_size > _MAPPED_FROM
        try:
            array = map_array(path) if is_large else load_array(path)
        except ArrayFileError as error:
            raise CorruptBankError(f"{path} {error}; {REPAIR}") from error
        if array.dtype.kind not in kinds or (shape is not None and array.shape != shape):
            raise CorruptBankError(f"{path} holds {array.dtype} {array.shape}; {REPAIR}")
        return array

    def _rows(self, manifest: Manifest, name: str, block: int) -> AnyArray:
        """One signal of one block of a complete bank."""
        return read_block(self.folder, name, manifest.signals[name], block, self.blocks[block])

    def _join(self, name: str, in_folder: list[bool], earlier: Manifest | None) -> SignalFile:
        """Writes one signal from the block folders and, where those are gone, from its earlier file."""
        blocks = (
            self._folders.rows(b, name) if earlier is None or is_there else self._rows(earlier, name, b)
            for b, is_there in enumerate(in_folder)
        )
        return join_blocks(self.folder, name, self.identity.design.models, blocks)


def n_models_saved(folder: Path) -> int:
    """How many finished models the bank in `folder` holds, or else the banks under it."""
    try:
        if (folder / IDENTITY).exists() and (folder / MANIFEST).exists():
            return Bank(folder).n_models_saved()
        return sum(Bank(path.parent).n_models_saved() for path in folder.rglob(IDENTITY))
    except (InputError, CorruptBankError):
        return 0  # a bank that is damaged or of another format counts for nothing


def holds_models(folder: Path) -> bool:
    """True when at least one block of models is there, whole or damaged."""
    return (folder / MANIFEST).exists() or next((folder / "blocks").glob("*"), None) is not None


def _write_design(folder: Path, design: Design) -> None:
    """The files of a design; those of another design, left by a run that was killed early, are removed."""
    files = {"design.npy": design.in_mask, "columns.npy": design.columns, "units.npy": design.units}
    for name, array in files.items():
        if array is None:
            (folder / name).unlink(missing_ok=True)
        elif not holds_array(folder / name, array):
            write_array(folder / name, array)


def _same_bank(folder: Path, identity: Identity, reuse: bool | None) -> Identity:
    """The identity of the bank in the folder, which is the wanted one, but for code the user vouches for.

    Raises:
        BankMismatchError: the folder holds models of another bank, of other code, or of an unknown bank.
    """
    if not holds_models(folder):
        return identity
    wanted = to_jsonable(identity)
    is_same = (folder / MANIFEST).exists() and read_manifest(folder).files[IDENTITY] == identity.sha256
    try:  # where the checksums agree, whatever has happened to identity.json since, this is the bank
        stored = wanted if is_same else read_json(folder / IDENTITY)
        compared = (stored, wanted) if identity.parts else (without_code(stored), without_code(wanted))
        reason = "; ".join(differences(*compared)[:4])
    except (InputError, CorruptBankError):  # not there, or damaged
        reason = f"its models have no {IDENTITY} that says what they are"
    if reason:
        remedy = other_folder(of_audit=reuse is not None)
        raise BankMismatchError(f"{folder} holds a different bank ({reason}); {remedy}")
    if not identity.parts:  # the parts of a merged bank were trained elsewhere, by code that is theirs
        refuse_other_code(folder, stored, wanted, reuse)
    return identity if stored == wanted else parse_identity(stored, folder / IDENTITY)
