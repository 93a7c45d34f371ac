"""Finished models of blocks that are not complete yet: one file each, written when the model is finished.

Models that are trained one at a time would otherwise wait in memory for the others of their block. A damaged
file is ignored, and its models are trained again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.manifest import BlockNotes
from leakscope.bank.run_folder import parse_as, to_jsonable
from leakscope.disk.sealed import read_sealed, write_sealed
from leakscope.errors import CorruptBankError


class Part(NamedTuple):
    """Some models of one block: name -> signal (models, checkpoints, columns[, classes]), and notes."""

    models: tuple[int, ...]
    signals: dict[str, AnyArray]
    notes: BlockNotes


@dataclass(frozen=True)
class BlockParts:
    """The finished models of incomplete blocks in `folder`, whose bank's identity has the sha256 `bank`."""

    folder: Path
    bank: str
    signal_names: tuple[str, ...]

    def write(self, block: int, part: Part) -> None:
        """Stores finished models."""
        header = {"bank": self.bank, "models": part.models, "notes": to_jsonable(part.notes)}
        write_sealed(self._path(block) / f"{part.models[0]:06d}-{len(part.models)}", header, part.signals)

    def read(self, block: int) -> list[Part]:
        """The undamaged parts of a block, in the order of their models."""
        parts = map(self._part, sorted(self._path(block).glob("[0-9]*")))
        return sorted((part for part in parts if part is not None), key=lambda part: part.models)

    def models(self, block: int) -> set[int]:
        """The models of the undamaged parts of a block."""
        return {model for part in self.read(block) for model in part.models}

    def count(self, block: int) -> int:
        """How many models the parts of a block hold, by the names of their files."""
        return sum(int(path.name.split("-")[-1]) for path in self._path(block).glob("[0-9]*-[0-9]*"))

    def remove(self, block: int) -> None:
        """Removes the parts of a block."""
        shutil.rmtree(self._path(block), ignore_errors=True)

    def _path(self, block: int) -> Path:
        return self.folder / "blocks" / f"{block:05d}-parts"

    def _part(self, path: Path) -> Part | None:
        sealed = read_sealed(path)
        if sealed is None or sealed.header.get("bank") != self.bank:
            return None
        try:
            notes = parse_as(BlockNotes, sealed.header.get("notes", {}), path)
        except CorruptBankError:
            return None
        models = tuple(sealed.header.get("models", ()))
        is_sound = set(sealed.arrays) == set(self.signal_names) and all(
            len(signal) == len(models) for signal in sealed.arrays.values()
        )
        return Part(models, sealed.arrays, notes) if is_sound else None


def joined(parts: Sequence[Part]) -> Part:
    """The parts of one block, in the order of its models, as if they had been trained as one."""
    notes = [part.notes for part in parts]
    return Part(
        models=tuple(model for part in parts for model in part.models),
        signals={name: np.concatenate([p.signals[name] for p in parts]) for name in parts[0].signals},
        notes=BlockNotes(
            trainer=notes[0].trainer,
            note="; ".join(dict.fromkeys(note.note for note in notes if note.note)),
            seconds=round(sum(note.seconds for note in notes), 3),
            diverged_models={m: epoch for note in notes for m, epoch in note.diverged_models.items()},
            node=", ".join(sorted({note.node for note in notes})),
        ),
    )
