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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, IntArray
from leakscope.randomness import Purpose, generator, skip_float32
from leakscope.recipe import Recipe
from leakscope.types import Design, Records

DRAWN_AT_ONCE = 4_000_000  # record indices drawn together: fewer, larger calls are faster


class Lesson(NamedTuple):
    """What the models of a block are trained on, where that is not all of their members alike.

    Attributes:
        members: the records of each model of the block, int64 (members,) each.
        largest: the most records that any model of the whole design has.
        weight: float32 (models, records), how often a record counts; None: all count once.
        clip: float32 (models, records), the part of the clipping norm of DP-SGD that a record has; None: all
            have the whole.
    """

    members: list[IntArray]
    largest: int
    weight: npt.NDArray[np.float32] | None = None
    clip: npt.NDArray[np.float32] | None = None


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


def trained_on(records: Records, design: Design, recipe: Recipe) -> tuple[Design, IntArray | None]:
    """What the models are trained on, of the records that they have according to the design, and how often.

    A recipe that leaves duplicates out trains on each record once.
    """
    if not recipe.deduplicate:
        return design, records.copies
    return without_duplicates(design, records.duplicate_of), None


def rows_of(design: Design, model: int, copies: IntArray | None) -> IntArray:
    """The records a model is trained on, each as often as it has copies (None: once); int64 (rows,)."""
    members = design.members(model)
    return members if copies is None else np.repeat(members, copies[members])


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

    def __init__(
        self, design: Design, models: IntArray, batch_size: int, seed: int, lesson: Lesson | None = None
    ) -> None:
        self.models, self.seed = models, seed
        lesson = lesson or all_members(design, models)
        self.batch, self.steps = batch_shape(lesson.largest, batch_size)
        self._members, self._weight = lesson.members, lesson.weight
        self._rngs = [generator(seed, int(m), Purpose.BATCH_ORDER) for m in models]
        n_members = np.array([len(rows) for rows in self._members])
        self.row_weight = self._weights(n_members)
        self.idle: BoolArray = self.row_weight.sum(axis=2) == 0

    @property
    def members(self) -> list[IntArray]:
        """The records of each model, int64 (members,) each."""
        return self._members

    @property
    def weighs_alike(self) -> bool:
        """Whether all records count once, so that `row_weight` is right for every epoch."""
        return self._weight is None

    def epochs(self, n_epochs: int, first: int = 0) -> Iterator[IntArray]:
        """Record indices of each epoch from `first` on; int64 (steps, models, batch)."""
        for together in self._drawn_together(n_epochs, first):
            yield from self._orders(together)

    def draws(self, n_epochs: int, first: int = 0) -> Iterator[npt.NDArray[np.float32]]:
        """The numbers of each epoch whose ranks are the order of the records; infinite after a model's last.

        float32 (models, largest number of members). For devices that rank faster than this machine.
        """
        shape = len(self._members), max(map(len, self._members))
        for together in self._drawn_together(n_epochs, first):
            drawn = np.full((together, *shape), np.inf, dtype=np.float32)
            for model, (members, rng) in enumerate(zip(self._members, self._rngs, strict=True)):
                numbers = rng.random((together, len(members)), dtype=np.float32)
                drawn[:, model, : len(members)] = numbers
            yield from drawn

    def _drawn_together(self, n_epochs: int, first: int) -> Iterator[int]:
        """Moves the generators to epoch `first`; then the numbers of epochs to draw in one go."""
        for members, rng in zip(self._members, self._rngs, strict=True):
            skip_float32(rng, first * len(members))
        together = max(1, DRAWN_AT_ONCE // (len(self._members) * self.steps * self.batch))
        for start in range(first, n_epochs, together):
            yield min(together, n_epochs - start)

    def weights(self, order: IntArray) -> npt.NDArray[np.float32]:
        """What each row of an epoch's batches weighs in the loss; float32 (steps, models, batch)."""
        if self._weight is None:
            return self.row_weight
        weights: npt.NDArray[np.float32] = (
            self.row_weight * self._weight[np.arange(len(self.models))[:, None], order]
        )
        return weights

    def _orders(self, n_epochs: int) -> IntArray:
        """Every model's records in random order, filled up; (epochs, steps, models, batch)."""
        orders = np.empty((n_epochs, self.steps, len(self._members), self.batch), dtype=np.int64)
        position = np.arange(self.steps * self.batch)
        for model, (members, rng) in enumerate(zip(self._members, self._rngs, strict=True)):
            order = ranked(rng.random((n_epochs, len(members)), dtype=np.float32))
            filled = members[order[:, position % len(members)]]
            orders[:, :, model] = filled.reshape(n_epochs, self.steps, self.batch)
        return orders

    def _weights(self, n_members: IntArray) -> npt.NDArray[np.float32]:
        position = np.arange(self.steps * self.batch).reshape(self.steps, 1, self.batch)
        real = position < n_members[None, :, None]  # (steps, models, batch)
        size = np.maximum(real.sum(axis=2, keepdims=True), 1)
        weights: npt.NDArray[np.float32] = (real / size).astype(np.float32)
        return weights


def ranked(values: npt.NDArray[np.float32]) -> IntArray:
    """The order of each row's values, none of them negative, from the lowest; ties by position.

    As a stable `argsort`, at a fraction of its time: sorts numbers with the value's bits above its position.
    The order of ties in numpy's default `argsort` depends on the processor.
    """
    keys: IntArray = values.view(np.int32).astype(np.int64) << 32
    keys |= np.arange(values.shape[1])
    keys.sort(axis=1)
    keys &= 2**32 - 1
    return keys


def all_members(design: Design, models: IntArray, copies: IntArray | None = None) -> Lesson:
    """Every member, as often as it has copies."""
    if copies is None:
        largest = int(design.in_mask.sum(axis=1).max())
    else:
        largest = max(len(rows_of(design, model, copies)) for model in range(design.n_models))
    return Lesson([rows_of(design, int(m), copies) for m in models], largest)


def batch_shape(largest: int, batch_size: int) -> tuple[int, int]:
    """(rows in a batch, batches in an epoch) where the largest model has so many records."""
    batch = min(batch_size, largest)
    return batch, ceil(largest / batch)
