"""A bank of models that were not trained together: the target's outputs, then those of its references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.bank import Bank
from leakscope.bank.identity import Identity
from leakscope.bank.manifest import Provenance
from leakscope.disk.scratch import Scratch, over_blocks
from leakscope.signals.of_arrays import signals_of_logits, signals_of_numbers
from leakscope.signals.registry import CLASSIFICATION, task_of
from leakscope.signals.residuals import label_spread
from leakscope.types import Design

_RECORDS_PER_BLOCK = 1 << 16  # times models


def signals_of(
    logits: AnyArray, labels: AnyArray, names: Sequence[str], scratch: Scratch
) -> dict[str, AnyArray]:
    """The signals of one model from its outputs (records, outputs); name -> (1, 1, records[, classes])."""
    spread = None if task_of(labels) == CLASSIFICATION else label_spread(labels)

    def block(records: slice) -> dict[str, AnyArray]:
        some, own_labels = np.asarray(logits[records]), np.asarray(labels[records])
        if spread is None:
            return signals_of_logits(some, own_labels, names)
        return signals_of_numbers(some[:, 0], own_labels, spread, names)

    def fill(records: slice) -> None:
        for name, values in block(records).items():
            signals[name][0, 0, records] = values

    signals = {
        name: scratch.empty((1, 1, len(labels), *first.shape[1:]), first.dtype)
        for name, first in block(slice(0, 1)).items()
    }
    over_blocks(len(labels), fill, logits, *signals.values())
    return signals


def models_per_block(n_records: int) -> int:
    """Models that are stored together: each block is flushed to disk, which takes longer than small ones."""
    return max(1, _RECORDS_PER_BLOCK // max(n_records, 1))


def write_rows(
    folder: Path,
    identity: Identity,
    design: Design,
    labels: AnyArray,
    row: Callable[[int], dict[str, AnyArray]],
    note: str,
    reuse: bool = False,
) -> Bank:
    """A bank of models whose signals `row` gives, one by one; written where it is missing or damaged."""
    bank = Bank.create(folder, identity, design, labels, reuse)
    if not bank.is_complete or bank.damage():
        for block, models in enumerate(bank.blocks):
            rows = [row(model) for model in models]
            bank.add_block(block, {name: _stacked([own[name] for own in rows]) for name in rows[0]})
        bank.finish(Provenance(note=note))
    return bank


def _stacked(rows: Sequence[AnyArray]) -> AnyArray:
    """Rows of several models; that of one may be larger than memory."""
    return rows[0] if len(rows) == 1 else np.concatenate(rows)
