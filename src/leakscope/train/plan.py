"""Which records each model of a block sees at each step.

Semantics are those of the usual data loader: a fresh random order each epoch, a smaller last batch.
All batches have the same shape nonetheless: a short one is filled up with records from the start
of the model's own order, whose weight in the loss is zero (they do enter batch-norm statistics).
Shapes and order depend on the design and the model only, never on the models trained beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, IntArray
from leakscope.randomness import Purpose, generator, skip_float32
from leakscope.types import Design

DRAWN_AT_ONCE = 4_000_000  # record indices drawn together: fewer, larger calls are faster


def without_duplicates(design: Design, duplicate_of: IntArray) -> Design:
    """The design in which a model has only the first of its members that are equal.

    `duplicate_of` is as `Records.duplicate_of`.
    """
    assert design.columns is None, "models of one universe of records"
    repeated = np.flatnonzero(np.bincount(duplicate_of, minlength=len(duplicate_of))[duplicate_of] > 1)
    if not len(repeated):
        return design
    repeated = repeated[np.argsort(duplicate_of[repeated], kind="stable")]
    own = design.in_mask[:, repeated]
    starts = np.flatnonzero(np.diff(duplicate_of[repeated], prepend=-1))
    n_before: IntArray = np.cumsum(own, axis=1) - own  # members to the left, those of other groups included
    group = np.cumsum(np.diff(duplicate_of[repeated], prepend=duplicate_of[repeated[0]]) != 0)
    in_mask = design.in_mask.copy()
    in_mask[:, repeated] = own & (n_before == n_before[:, starts][:, group])
    return replace(design, in_mask=in_mask)


class BatchPlan:
    """The batches of a block of models, epoch after epoch.

    Attributes:
        models: int64 (models,), the block's models.
        seed: run seed.
        batch: rows in a batch.
        steps: batches in an epoch, the same for all models of the design.
        row_weight: float32 (steps, models, batch): one over the batch's size, 0 for filled-up rows.
        idle: bool (steps, models): the model has no record left at this step, and must not move.
    """

    def __init__(self, design: Design, models: IntArray, batch_size: int, seed: int) -> None:
        self.models, self.seed = models, seed
        largest = int(design.in_mask.sum(axis=1).max())
        self.batch = min(batch_size, largest)
        self.steps = ceil(largest / self.batch)
        self._members = [design.members(int(m)) for m in models]
        self._rngs = [generator(seed, int(m), Purpose.BATCH_ORDER) for m in models]
        n_members = np.array([len(rows) for rows in self._members])
        self.row_weight = self._weights(n_members)
        self.idle: BoolArray = self.row_weight.sum(axis=2) == 0

    def epochs(self, n_epochs: int, first: int = 0) -> Iterator[IntArray]:
        """Record indices of each epoch from `first` on; int64 (steps, models, batch)."""
        for members, rng in zip(self._members, self._rngs, strict=True):
            skip_float32(rng, first * len(members))
        n_models, largest = len(self._members), self.steps * self.batch
        together = max(1, DRAWN_AT_ONCE // (n_models * largest))
        for start in range(first, n_epochs, together):
            orders = self._orders(min(together, n_epochs - start))
            yield from orders.reshape(-1, self.steps, n_models, self.batch)

    def _orders(self, n_epochs: int) -> IntArray:
        """Every model's records in random order, filled up; (epochs, steps, models, batch)."""
        orders = np.empty((n_epochs, self.steps, len(self._members), self.batch), dtype=np.int64)
        position = np.arange(self.steps * self.batch)
        for model, (members, rng) in enumerate(zip(self._members, self._rngs, strict=True)):
            order = rng.random((n_epochs, len(members)), dtype=np.float32).argsort(axis=1)
            filled = members[order[:, position % len(members)]]
            orders[:, :, model] = filled.reshape(n_epochs, self.steps, self.batch)
        return orders

    def _weights(self, n_members: IntArray) -> npt.NDArray[np.float32]:
        position = np.arange(self.steps * self.batch).reshape(self.steps, 1, self.batch)
        real = position < n_members[None, :, None]  # (steps, models, batch)
        size = np.maximum(real.sum(axis=2, keepdims=True), 1)
        weights: npt.NDArray[np.float32] = (real / size).astype(np.float32)
        return weights
