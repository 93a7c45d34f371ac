"""A bank of seven made-up models in three blocks, and what it looks like on disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.manifest import MANIFEST, BlockNotes
from leakscope.types import Design

N_MODELS, N_COLUMNS, N_CLASSES, EPOCHS = 7, 5, 3, (2, 4)
BLOCK_SIZE = 3
N_BLOCKS = 3  # of 3, 3 and 1 models
SIGNALS = ("correct", "logits", "loss")
LABELS = np.array([0, 1, 2, 0, 1])
ALL_SUBSETS = [subset for n in range(N_BLOCKS + 1) for subset in itertools.combinations(range(N_BLOCKS), n)]

IDENTITY = Identity(
    records=RecordsIdentity("made up", N_COLUMNS, "ab" * 32),
    design=DesignIdentity(N_MODELS, N_COLUMNS, "cd" * 32),
    recipe={"lr": 0.1, "net_options": {"width": 8}, "evaluated_epochs": list(EPOCHS)},
    seed=3,
    signals=SIGNALS,
    block_size=BLOCK_SIZE,
)


def design() -> Design:
    return Design(np.random.default_rng(0).random((N_MODELS, N_COLUMNS)) < 0.5)


def columns_design() -> Design:
    """Each model is asked about its own rows of ten records."""
    columns = np.stack([np.random.default_rng(m).permutation(10)[:N_COLUMNS] for m in range(N_MODELS)])
    return Design(design().in_mask, columns)


def answers(models: Iterable[int]) -> dict[str, AnyArray]:
    """What the models "said": a function of the model's number alone."""
    logits = np.stack(
        [
            np.random.default_rng(100 + m).normal(size=(len(EPOCHS), N_COLUMNS, N_CLASSES))
            for m in np.asarray(models).tolist()
        ]
    ).astype(np.float32)
    return {"correct": logits.argmax(-1) == LABELS, "logits": logits, "loss": -logits[..., 0]}


def notes(models: Iterable[int]) -> BlockNotes:
    """Model 4 diverges at epoch 2."""
    return BlockNotes("none", diverged_models={m: 2 for m in np.asarray(models).tolist() if m == 4})


def create(folder: Path, **changes: Any) -> Bank:
    return Bank.create(folder, replace(IDENTITY, **changes), design(), LABELS)


def add(bank: Bank, blocks: Iterable[int]) -> list[int]:
    """Commits the blocks; returns their numbers."""
    added = list(blocks)
    for block in added:
        bank.add_block(block, answers(bank.blocks[block]), notes(bank.blocks[block]))
    return added


def complete(folder: Path, make: Callable[[Path], Bank] = create) -> list[int]:
    """Does what an engine does; returns the blocks that had to be made."""
    bank = make(folder)
    added = [] if bank.is_complete and not bank.damage() else add(bank, bank.pending())
    if not bank.is_complete or bank.damage():
        bank.finish()
    return added


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the manifest, which holds the time of day."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def flip(path: Path, at: int) -> None:
    """Inverts one bit of one byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))
