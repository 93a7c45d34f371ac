"""What the training of a block of models reports and returns, whoever trains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.saved_training import Saving

Progress = Callable[[float], None]
"""Called with the number of models' worth of training just done (a fraction of the block)."""


class Follow(NamedTuple):
    """Who follows the training of a block: progress is called, and its state saved (None: nowhere)."""

    progress: Progress = lambda _: None
    saving: Saving | None = None


UNFOLLOWED = Follow()


@dataclass(frozen=True, eq=False)
class BlockSignals:
    """The signals of a trained block.

    Attributes:
        signals: name -> (models, checkpoints, columns[, classes or queries]).
        diverged_at: int64 (models,), the first checkpoint's epoch at which a model or its outputs
            were no longer finite; 0 for a model that converged.
        trainer: "dense", "stacked", "serial", "side_by_side", "adapters" or "estimators".
        note: what did not go as planned; empty: nothing.
        seconds: training time, where an earlier process did some of it; None: this one did all.
    """

    signals: dict[str, AnyArray]
    diverged_at: IntArray
    trainer: str
    note: str = ""
    seconds: float | None = None
