"""Small banks to merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.manifest import BlockNotes, Provenance
from leakscope.bank.merge import plan_merge, write_merge
from leakscope.design import make_design
from leakscope.types import Design
from tests.bank.small_bank import flip

N_RECORDS, EPOCHS, BLOCK_SIZE = 12, (2, 4), 3
SIGNALS = ("correct", "loss")
LABELS = np.arange(N_RECORDS) % 3


def answers(seed: int, models: IntArray) -> dict[str, AnyArray]:
    """What the models of one seed "said": a function of (seed, model) alone."""
    loss = np.stack([np.random.default_rng([seed, m]).random((len(EPOCHS), N_RECORDS)) for m in models])
    return {"correct": loss < 0.5, "loss": loss.astype(np.float32)}


def design_of(seed: int, n_models: int, own_columns: bool = False) -> Design:
    in_mask = make_design("bernoulli", n_models, N_RECORDS, seed).in_mask
    columns = np.stack([np.random.default_rng([seed, m]).permutation(N_RECORDS) for m in range(n_models)])
    return Design(in_mask, columns if own_columns else None)


def identity_of(seed: int, design: Design, **changes: Any) -> Identity:
    identity = Identity(
        records=RecordsIdentity("made up", N_RECORDS, "ab" * 32),
        design=DesignIdentity.of(design),
        recipe={"lr": 0.1, "evaluated_epochs": list(EPOCHS)},
        seed=seed,
        signals=SIGNALS,
        block_size=BLOCK_SIZE,
    )
    return replace(identity, **changes)


def bank_of(
    folder: Path,
    seed: int,
    n_models: int = 7,
    blocks: Sequence[int] | None = None,
    own_columns: bool = False,
    **changes: Any,
) -> Path:
    """A bank whose model 4 diverges at epoch 2; unfinished when not all blocks are listed."""
    design = design_of(seed, n_models, own_columns)
    bank = Bank.create(folder, identity_of(seed, design, **changes), design, LABELS)
    for block in bank.pending() if blocks is None else blocks:
        models = bank.blocks[block]
        signals = {name: answers(seed, models)[name] for name in bank.identity.signals}
        bank.add_block(block, signals, BlockNotes("none", diverged_models={4: 2} if 4 in models else {}))
    if not bank.is_complete and not bank.pending():
        bank.finish(Provenance(device="cpu"))
    return folder


def merged(folder: Path, *parts: Path) -> Bank:
    return write_merge(plan_merge(parts), folder)


def everything_under(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def damage_rows(name: str, at: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "signals" / name
        flip(path, 128 + int(at * (path.stat().st_size - 128)))

    return damage
