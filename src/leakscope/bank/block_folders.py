"""The blocks of an unfinished bank: one folder each, `blocks/NNNNN`, renamed into place whole."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from leakscope.array_types import AnyArray
from leakscope.bank.damage import Damage, file_damage
from leakscope.bank.manifest import BlockNotes
from leakscope.bank.run_folder import parse_as, read_json, to_jsonable
from leakscope.disk.npy import map_array
from leakscope.disk.storage import atomic_folder, sha256_of, write_array, write_json
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
