"""The signals and the design of a bank, read in blocks of records.

A bank's arrays may be memory maps larger than memory. An attack that scores block by block holds a few
arrays of (models, records of one block) at a time, whatever the size of the bank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks
from leakscope.types import Design, Signals

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the records, as an attack sees them.

    Attributes:
        records: which ones.
        arrays: signal -> (models, checkpoints, records[, classes]), as stored.
        in_mask: bool (models, records), true where the record was in the model's training set. A target's
            own row is unknown to an attacker and must not affect the target's scores.
        labels: (models, records), the true labels.
        targets: int64 (targets,), the models under attack.
        statistics: what the attack's own `statistics` returned; None if it has none.
    """

    records: slice
    arrays: dict[str, AnyArray]
    in_mask: BoolArray
    labels: AnyArray
    targets: IntArray
    statistics: Any = None

    def signal(self, name: str) -> FloatArray:
        """A signal of every model at the last checkpoint; float64 (models, records[, classes])."""
        return self.arrays[name][:, -1].astype(np.float64)

    def of_targets(self, name: str) -> FloatArray:
        """A signal of the targets at the last checkpoint; float64 (targets, records[, classes])."""
        return np.asarray(self.arrays[name][self.targets, -1], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Blocks:
    """All records, block by block.

    Attributes:
        signals: the bank's signals.
        design: who was in which training set.
        targets: int64 (targets,), the models under attack.
        needs: the signals that are read.
        statistics: handed to every block.
    """

    signals: Signals
    design: Design
    targets: IntArray
    needs: tuple[str, ...]
    statistics: Any = None

    def map(self, work: Callable[[Block], Result], *written: AnyArray) -> list[Result]:
        """The result of `work` for each block, in order; several threads work at once.

        `written` are further arrays that the work writes to.
        """
        read = [self.signals.arrays[name] for name in self.needs]
        arrays = (*read, self.design.in_mask, *written)
        return over_blocks(self.design.n_records, lambda records: work(self._block(records)), *arrays)

    def _block(self, records: slice) -> Block:
        labels = np.broadcast_to(self.signals.labels, self.design.in_mask.shape)
        return Block(
            records,
            {name: self.signals.arrays[name][:, :, records] for name in self.needs},
            self.design.in_mask[:, records],
            labels[:, records],
            self.targets,
            self.statistics,
        )
