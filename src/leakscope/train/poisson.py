"""Batches of DP-SGD: at every step, each member joins independently with the same probability.

Batches vary in size, from no record on. An epoch's batches are as wide as its largest, so none overflows; the
rest of a row is filled up with `NOBODY`, which weighs nothing. A model's batches do not depend on the models
trained beside it, but the width does.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, IntArray
from leakscope.privacy.settings import Sampling
from leakscope.randomness import Purpose, generator
from leakscope.recipe import Recipe
from leakscope.train.plan import BatchPlan, Lesson, all_members
from leakscope.types import Design

NOBODY = -1
_WIDE = 4.5  # standard deviations above the expected size: one batch in 300,000 is wider


class PoissonPlan:
    """The batches of a block of models, epoch after epoch.

    Attributes:
        models: int64 (models,), the block's models.
        seed: run seed.
        sampling: how members join batches.
        batch: a width that batches rarely exceed.
        steps: batches in an epoch.
        idle: bool (steps, models), all false: also a model without a record moves, by noise.
    """

    def __init__(
        self, design: Design, models: IntArray, batch_size: int, seed: int, lesson: Lesson | None = None
    ) -> None:
        self.models, self.seed = models, seed
        self.sampling = Sampling.of(design, batch_size)
        self.steps = self.sampling.steps_per_epoch
        lesson = lesson or all_members(design, models)
        self._members, self._clip = lesson.members, lesson.clip
        largest = max(len(members) for members in self._members)
        expected = largest * self.sampling.rate
        self.batch = max(1, min(largest, ceil(expected + _WIDE * sqrt(expected))))
        self.idle: BoolArray = np.zeros((self.steps, len(models)), dtype=np.bool_)

    def epochs(self, n_epochs: int, first: int = 0) -> Iterator[IntArray]:
        """Record indices of each epoch from `first` on; int64 (steps, models, width), `NOBODY` at the end."""
        for epoch in range(first, n_epochs):
            yield self._epoch(epoch)

    def weights(self, order: IntArray) -> npt.NDArray[np.float32]:
        """One over the expected size of a batch, 0 for nobody; the size itself would reveal a member."""
        weights: npt.NDArray[np.float32] = (order != NOBODY) / np.float32(self.sampling.batch_size)
        return weights

    @property
    def has_clips(self) -> bool:
        """Whether some rows are clipped more than others."""
        return self._clip is not None

    def clips(self, order: IntArray) -> npt.NDArray[np.float32] | None:
        """The part of the clipping norm that each row has, as `order` is shaped; None: all have the whole."""
        if self._clip is None:
            return None
        clips: npt.NDArray[np.float32] = self._clip[np.arange(len(self.models))[:, None], order]
        return clips

    def _epoch(self, epoch: int) -> IntArray:
        drawn = []
        for model, members in zip(self.models.tolist(), self._members, strict=True):
            rng = generator(self.seed, model, Purpose.SAMPLING, epoch)
            cells = successes(rng, self.steps * len(members), self.sampling.rate)
            step, who = np.divmod(cells, max(1, len(members)))
            drawn.append((step, members[who]))
        sizes = np.stack([np.bincount(step, minlength=self.steps) for step, _ in drawn], axis=1)
        order = np.full((self.steps, len(drawn), max(1, int(sizes.max()))), NOBODY, dtype=np.int64)
        for model, (step, records) in enumerate(drawn):
            begins = np.cumsum(sizes[:, model]) - sizes[:, model]
            order[step, model, np.arange(len(step)) - begins[step]] = records
        return order


Plan = BatchPlan | PoissonPlan


def plan_of(design: Design, copies: IntArray | None, models: IntArray, recipe: Recipe, seed: int) -> Plan:
    """The batches of a recipe; `copies` says how often each record is trained on, None: once."""
    kind = BatchPlan if recipe.privacy is None else PoissonPlan
    return kind(design, models, recipe.batch_size, seed, all_members(design, models, copies))


def successes(rng: np.random.Generator, n_trials: int, rate: float) -> IntArray:
    """Which of `n_trials` independent trials succeed, in order; draws as many numbers as succeed."""
    if rate >= 1:
        return np.arange(n_trials)
    expected = n_trials * rate
    at_once = ceil(expected + _WIDE * sqrt(expected)) + 1
    parts, last = [], -1
    while last < n_trials:
        parts.append(last + np.cumsum(rng.geometric(rate, at_once)))
        last = int(parts[-1][-1])
    drawn = np.concatenate(parts)
    return drawn[drawn < n_trials]
