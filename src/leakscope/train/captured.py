"""Training steps as CUDA graphs: captured once, replayed for every batch, with no word to the host.

Each epoch's plan (which records, how they are looked at, how they weigh, at which rate) is copied to
fixed places on the device; a counter there says which step it is. A replay costs the host microseconds
where hundreds of separate launches cost milliseconds. The steps of perceptrons are so short that one graph
takes many of them, with the records of all of them gathered at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import IntArray
from leakscope.recipe import Recipe
from leakscope.train.augment import Views, gathered, is_augmented, padded, views_at
from leakscope.train.dense import DenseStack
from leakscope.train.mixup import Mixes, mixed
from leakscope.train.orders import Ranking, can_rank
from leakscope.train.plan import BatchPlan
from leakscope.train.poisson import NOBODY, Plan, PoissonPlan
from leakscope.train.side_by_side import new_stream
from leakscope.train.steps import AfterStep, Epoch, Stack, Steps, labels_at

_WARM_UP_STEPS = 3
_MOST_STEPS = 32  # in one graph; more gain nothing
_GATHERED_IN_A_GRAPH = 32_000_000  # numbers of the batches that one graph gathers


class CapturedSteps(Steps):
    """The steps of one block on a CUDA device."""

    def __init__(self, stack: Stack, x: Tensor, y: Tensor, plan: Plan, recipe: Recipe) -> None:
        super().__init__(stack, plan, recipe)
        self._plan = plan
        self._images, self._labels = padded(x, recipe.crop) if is_augmented(recipe) else x, y
        self._at = torch.zeros(1, dtype=torch.int64, device=x.device)
        self._idle = torch.from_numpy(plan.idle).to(x.device) if plan.idle.any() else None
        self._lr = torch.zeros(plan.steps, device=x.device)
        self._together = self._steps_together(len(plan.models) * plan.batch * max(1, x[0].numel()))
        self._widen(plan.batch)
        self._ranking: Ranking | None = None
        if isinstance(plan, BatchPlan) and can_rank(plan):
            self._ranking = Ranking(plan, x.device)
            _put(self._weight, torch.from_numpy(plan.row_weight))
        self.ranks_draws = self._ranking is not None

    def _steps_together(self, numbers_of_a_step: int) -> int:
        """How many steps one graph takes, where steps are short and all alike; else 1."""
        is_short = isinstance(self._stack, DenseStack) and self._idle is None
        if not is_short or self._recipe.privacy is not None:
            return 1
        most = min(self._plan.steps, _MOST_STEPS, max(1, _GATHERED_IN_A_GRAPH // numbers_of_a_step))
        return self._plan.steps // -(-self._plan.steps // most)

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
        self._graphs = self._captured()

    def run_epoch(self, epoch: Epoch, after_step: AfterStep = lambda _: None) -> None:
        """One epoch, from its first step on; returns before the device is done."""
        order, lr, first, views, mixes = epoch
        if self._ranking is not None:
            _put(self._ranking.drawn, torch.from_numpy(order))
            self._index.copy_(self._ranking.order())
        else:
            self._put_rows(order)
        if views is not None:
            for place, drawn in zip(self._views, views, strict=True):
                _put(place[:, :, : drawn.shape[2]], drawn)
        if mixes is not None:
            for place, drawn in zip(self._mixes, mixes, strict=True):
                _put(place, drawn)
        _put(self._lr, torch.tensor(lr))
        self._at.fill_(first)
        step = first
        while step < self._plan.steps:
            taken = self._together if step + self._together <= self._plan.steps else 1
            self._graphs[taken].replay()
            step += taken
            after_step(step)

    def _put_rows(self, order: IntArray) -> None:
        """The records of an epoch and their weights; places beyond the epoch's width are nobody's."""
        if order.shape[2] > self._index.shape[2]:  # a rare epoch of DP-SGD
            self._widen(order.shape[2])
        width = self._index.shape[2] - order.shape[2]
        wide = np.pad(order, ((0, 0), (0, 0), (0, width)), constant_values=NOBODY) if width else order
        _put(self._index, torch.from_numpy(np.maximum(wide, 0)))
        _put(self._weight, torch.from_numpy(self._plan.weights(wide)))
        if isinstance(self._plan, PoissonPlan) and self._clip_part is not None:
            clips = self._plan.clips(wide)
            assert clips is not None, "such a plan has them"
            _put(self._clip_part, torch.from_numpy(clips))

    def _captured(self) -> dict[int, torch.cuda.CUDAGraph]:
        """Graphs by how many steps they take; models and optimizer are as before, also when it raises."""
        changed = [*self.tensors, self._at, *(self._noise.tensors if self._noise else [])]
        before = [t.clone() for t in changed]
        try:
            with _fastest_convolutions():
                self._warm_up()
                return {n: self._graph_of(n) for n in sorted({1, self._together})}
        finally:
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)

    def _graph_of(self, n_steps: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._steps(n_steps)
        return graph

    def _warm_up(self) -> None:
        """Kernels are chosen and compiled here, on a stream of their own: a capture cannot do that."""
        main, aside = torch.cuda.current_stream(self._at.device), new_stream(self._at.device)
        aside.wait_stream(main)
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UP_STEPS):
                self._steps(1)
                self._at.zero_()
        main.wait_stream(aside)

    def _steps(self, n_steps: int) -> None:
        """The next steps of the epoch."""
        at = self._at if n_steps == 1 else self._at + torch.arange(n_steps, device=self._at.device)
        index, weight, lr = (planned.index_select(0, at) for planned in (self._index, self._weight, self._lr))
        x, y = self._rows(index, at), labels_at(self._labels, index)
        mixes = [planned.index_select(0, at) for planned in self._mixes] if self._recipe.mixup else []
        for step in range(n_steps):
            batch, labels = x[step], y[step]
            if mixes:
                share, partner = (drawn[step] for drawn in mixes)
                batch, labels = mixed(batch, share, partner), mixed(labels, share, partner)
            self._step(batch, labels, weight[step], lr[step])
        self._at += n_steps

    def _step(self, x: Tensor, y: Tensor, weight: Tensor, lr: Tensor) -> None:
        changed = self._of_models if self._idle is not None else []
        before = [t.clone() for t in changed]
        clip_part = None if self._clip_part is None else self._clip_part.index_select(0, self._at)[0]
        self._optimizer.step(self._gradients(x, y, weight, clip_part), lr)
        if self._idle is not None:
            _put_back(changed, before, self._idle.index_select(0, self._at)[0])

    def _rows(self, index: Tensor, at: Tensor) -> Tensor:
        """The records at `index`, (steps, models, batch, ...), as they are looked at in the steps `at`."""
        is_private, crop = self._recipe.privacy is not None, self._recipe.crop
        if is_augmented(self._recipe):
            gather = views_at if is_private else gathered
            views = Views(*(planned.index_select(0, at) for planned in self._views))
            return gather(self._images, index, views, crop)
        rows = self._images[index]
        return rows[:, :, :, None] if is_private else rows


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
