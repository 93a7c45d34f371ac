"""A bank of models that were not trained together: the target's outputs, then those of its references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.identity import Identity
from leakscope.bank.manifest import Provenance
from leakscope.disk.scratch import Scratch, over_blocks
from leakscope.types import Design


def signals_of(
    logits: AnyArray, labels: IntArray, names: Sequence[str], scratch: Scratch
) -> dict[str, AnyArray]:
    """The signals of one model from its logits (records, classes); name -> (1, 1, records[, classes])."""
    import torch

    from leakscope.signals.functions import classification_signals

    def block(records: slice) -> dict[str, AnyArray]:
        some = torch.from_numpy(np.array(logits[records]))[None]
        values = classification_signals(some, torch.from_numpy(labels[records])[None], tuple(names))
        return {name: value.numpy()[0] for name, value in values.items()}

    def fill(records: slice) -> None:
        for name, values in block(records).items():
            signals[name][0, 0, records] = values

    signals = {
        name: scratch.empty((1, 1, len(labels), *first.shape[1:]), first.dtype)
        for name, first in block(slice(0, 1)).items()
    }
    over_blocks(len(labels), fill, logits, *signals.values())
    return signals


def write_rows(
    folder: Path,
    identity: Identity,
    design: Design,
    labels: IntArray,
    row: Callable[[int], dict[str, AnyArray]],
    note: str,
    reuse: bool = False,
) -> Bank:
    """A bank with one block per model, whose signals `row` gives; written where it is missing or damaged."""
    bank = Bank.create(folder, identity, design, labels, reuse)
    if not bank.is_complete or bank.damage():
        for model in range(design.n_models):
            bank.add_block(model, row(model))
        bank.finish(Provenance(note=note))
    return bank
