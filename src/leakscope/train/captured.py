"""A training step as one CUDA graph: captured once, replayed for every batch, with no word to the host.

Each epoch's plan (which records, how they are looked at, how they weigh, at which rate) is copied to
fixed places on the device; a counter there says which step it is. A replay costs the host microseconds
where hundreds of separate launches cost milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import AnyArray, IntArray
from leakscope.recipe import Recipe
from leakscope.train.augment import Views, gathered, is_augmented, padded, views_at
from leakscope.train.mixup import Mixes, mixed
from leakscope.train.poisson import NOBODY, Plan, PoissonPlan
from leakscope.train.side_by_side import new_stream
from leakscope.train.steps import AfterStep, Stack, Steps, labels_at

_WARM_UP_STEPS = 3


class CapturedSteps(Steps):
    """The steps of one block on a CUDA device."""

    def __init__(self, stack: Stack, x: Tensor, y: Tensor, plan: Plan, recipe: Recipe) -> None:
        super().__init__(stack, plan, recipe)
        self._plan = plan
        self._images, self._labels = padded(x, recipe.crop) if is_augmented(recipe) else x, y
        self._at = torch.zeros(1, dtype=torch.int64, device=x.device)
        self._idle = torch.from_numpy(plan.idle).to(x.device) if plan.idle.any() else None
        self._lr = torch.zeros(plan.steps, device=x.device)
        self._widen(plan.batch)

    def _widen(self, width: int) -> None:
        """Makes place for batches of `width` rows, and captures a step on them."""
        self._at.zero_()
        device, shape = self._at.device, (self._plan.steps, len(self._plan.models), width)
        of_views = shape if self._recipe.privacy is None else (*shape, self._recipe.privacy.views)
        self._index = torch.zeros(shape, dtype=torch.int64, device=device)
        self._views = Views(*(torch.zeros(of_views, dtype=torch.int64, device=device) for _ in range(3)))
        self._mixes = Mixes(torch.ones(shape[:2], device=device), torch.zeros_like(self._index))
        self._weight = torch.zeros(shape, device=device)
        is_clipped_more = isinstance(self._plan, PoissonPlan) and self._plan.has_clips
        self._clip_part = torch.ones(shape, device=device) if is_clipped_more else None
        self._graph = self._captured()

    def run_epoch(
        self,
        order: AnyArray,
        views: Views | None,
        mixes: Mixes | None,
        lr: list[float],
        first: int,
        after_step: AfterStep,
    ) -> None:
        """One epoch from step `first` on; returns before the device is done."""
        if order.shape[2] > self._index.shape[2]:  # a rare epoch of DP-SGD
            self._widen(order.shape[2])
        self._put_rows(order)
        if views is not None:
            for place, drawn in zip(self._views, views, strict=True):
                _put(place[:, :, : drawn.shape[2]], drawn)
        if mixes is not None:
            for place, drawn in zip(self._mixes, mixes, strict=True):
                _put(place, drawn)
        _put(self._lr, torch.tensor(lr))
        self._at.fill_(first)
        for step in range(first, self._plan.steps):
            self._graph.replay()
            after_step(step + 1)

    def _put_rows(self, order: IntArray) -> None:
        """The records of an epoch and their weights; places beyond the epoch's width are nobody's."""
        width = self._index.shape[2] - order.shape[2]
        wide = np.pad(order, ((0, 0), (0, 0), (0, width)), constant_values=NOBODY) if width else order
        _put(self._index, torch.from_numpy(np.maximum(wide, 0)))
        _put(self._weight, torch.from_numpy(self._plan.weights(wide)))
        if isinstance(self._plan, PoissonPlan) and self._clip_part is not None:
            clips = self._plan.clips(wide)
            assert clips is not None, "such a plan has them"
            _put(self._clip_part, torch.from_numpy(clips))

    def _captured(self) -> torch.cuda.CUDAGraph:
        """The graph of one step; models and optimizer are as before, whether it works or raises."""
        changed = [*self.tensors, self._at, *(self._noise.tensors if self._noise else [])]
        before = [t.clone() for t in changed]
        graph = torch.cuda.CUDAGraph()
        try:
            with _fastest_convolutions():
                self._warm_up()
                with torch.cuda.graph(graph):
                    self._step()
        finally:
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
        return graph

    def _warm_up(self) -> None:
        """Kernels are chosen and compiled here, on a stream of their own: a capture cannot do that."""
        main, aside = torch.cuda.current_stream(self._at.device), new_stream(self._at.device)
        aside.wait_stream(main)
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UP_STEPS):
                self._step()
                self._at.zero_()
        main.wait_stream(aside)

    def _step(self) -> None:
        index, weight = self._now(self._index), self._now(self._weight)
        x, y = self._rows(index), labels_at(self._labels, index)
        if self._recipe.mixup:
            share, partner = map(self._now, self._mixes)
            x, y = mixed(x, share, partner), mixed(y, share, partner)
        changed = self._of_models if self._idle is not None else []
        before = [t.clone() for t in changed]
        clip_part = None if self._clip_part is None else self._now(self._clip_part)
        self._optimizer.step(self._gradients(x, y, weight, clip_part), self._now(self._lr))
        if self._idle is not None:
            _put_back(changed, before, self._now(self._idle))
        self._at += 1

    def _rows(self, index: Tensor) -> Tensor:
        is_private, crop = self._recipe.privacy is not None, self._recipe.crop
        if is_augmented(self._recipe):
            gather = views_at if is_private else gathered
            return gather(self._images, index, Views(*map(self._now, self._views)), crop)
        return self._images[index][:, :, None] if is_private else self._images[index]

    def _now(self, planned: Tensor) -> Tensor:
        """The entry of the current step."""
        return planned.index_select(0, self._at)[0]


@contextmanager
def _fastest_convolutions() -> Iterator[None]:
    """cuDNN tries all its algorithms for a shape it meets; a graph replays the choice thousands of times."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _put(place: Tensor, values: Tensor) -> None:
    """Copies from pinned memory, in the order of the stream, without waiting for it."""
    place.copy_(values.pin_memory(), non_blocking=True)


def _put_back(changed: list[Tensor], before: list[Tensor], idle: Tensor) -> None:
    """Models that have no batch at this step stay exactly where they are."""
    for tensor, value in zip(changed, before, strict=True):
        mask = idle.view(-1, *(1 for _ in tensor.shape[1:]))
        tensor.copy_(torch.where(mask, value, tensor))
