"""The steps of one epoch, launched by the host one by one: on a CPU, and where capture fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray, IntArray
from leakscope.recipe import Recipe
from leakscope.train.augment import Views, gathered, is_augmented, padded
from leakscope.train.losses import Objective
from leakscope.train.mixup import Mixes, mixed
from leakscope.train.optimizer import Optimizer, sharpness_aware
from leakscope.train.plan import BatchPlan

GATHERED_AT_ONCE = 4_000_000  # numbers copied into one run of batches

_NOTHING = nullcontext()

AfterStep = Callable[[int], None]
"""Called with the number of steps of the epoch that are done."""


class Stack(Protocol):
    """A block of models that can be trained and evaluated; every tensor's first axis is the model."""

    parameters: list[Tensor]
    buffers: list[Tensor]
    nets: list[nn.Module]
    """Modules that run in training, whose attributes may change."""
    objective: Objective

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the objective on each model's batch, in the order of `parameters`."""

    def outputs(self, x: Tensor) -> Tensor:
        """(models, rows, ...) -> (models, rows, outputs)."""

    def state(self) -> dict[str, Tensor]:
        """Parameters under the module's own names and shapes."""


class Steps:
    """What the steps of a block have in common, whoever launches them."""

    def __init__(self, stack: Stack, recipe: Recipe) -> None:
        self._stack, self._recipe = stack, recipe
        self._optimizer = Optimizer(recipe, stack.parameters)

    @property
    def tensors(self) -> list[Tensor]:
        """Everything a step changes, but for its number."""
        return [*self._optimizer.tensors, self._optimizer.count, *self._stack.buffers]

    @property
    def _of_models(self) -> list[Tensor]:
        """Those whose first axis is the model."""
        return [*self._optimizer.tensors, *self._stack.buffers]


class HostSteps(Steps):
    """Steps launched by the host; `rows` gives the records at an index, by default those of `x`."""

    def __init__(
        self,
        stack: Stack,
        x: Tensor,
        y: Tensor,
        plan: BatchPlan,
        recipe: Recipe,
        rows: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(stack, recipe)
        self._rows = rows or partial(torch.index_select, x, 0)
        self._x, self._y = padded(x, recipe.crop) if is_augmented(recipe) else x, y
        self._row_weight = torch.from_numpy(plan.row_weight).to(x.device).unbind()
        self._idle = [np.flatnonzero(models) for models in plan.idle]

    def weigh(self, row_weight: npt.NDArray[np.float32]) -> None:
        """Gives the rows of the next epoch their weights, float32 (steps, models, batch)."""
        self._row_weight = torch.from_numpy(row_weight).to(self._x.device).unbind()

    def run_epoch(
        self,
        order: AnyArray,
        views: Views | None,
        mixes: Mixes | None,
        lr: list[float],
        first: int,
        after_step: AfterStep,
    ) -> None:
        """One epoch from step `first` on.

        `order` has the records, int64 (steps, models, batch), and `lr` one learning rate per step.
        """
        index = torch.from_numpy(order[first:]).to(self._x.device)
        batches = (
            self._batches(index)
            if views is None
            else self._viewed(index, Views(*(drawn[first:] for drawn in views)))
        )
        changed = self._of_models
        drawn = None if mixes is None else Mixes(*(t.to(self._x.device) for t in mixes))
        for step, (x, y) in enumerate(batches, first):
            if drawn is not None:
                x, y = (mixed(values, drawn.share[step], drawn.partner[step]) for values in (x, y))
            with _frozen(self._idle[step], changed) if len(self._idle[step]) else _NOTHING:
                self._optimizer.step(self._gradients(x, y, self._row_weight[step]), lr[step])
            after_step(step + 1)

    def _gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        stack, rho = self._stack, self._recipe.sam_rho
        if rho == 0:  # small models take microseconds: not one call more than needed
            return stack.gradients(x, y, row_weight)
        here = partial(stack.gradients, x, y, row_weight)
        return sharpness_aware(here, stack.parameters, stack.buffers, rho)

    def _batches(self, index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch; `index` is (steps, models, batch). Small ones are gathered together."""
        steps, models, batch = index.shape
        together = max(1, GATHERED_AT_ONCE // (models * batch * max(1, self._x[0].numel())))
        for start in range(0, steps, together):
            part = index[start : start + together]
            flat = part.reshape(-1)
            x = self._rows(flat).view(*part.shape, *self._x.shape[1:])
            yield from zip(x, labels_at(self._y, part), strict=True)

    def _viewed(self, index: Tensor, views: Views) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch, each record flipped and cropped as drawn."""
        drawn = Views(*(v.to(index.device) for v in views))
        for step, rows in enumerate(index):
            x = gathered(self._x, rows, Views(*(v[step] for v in drawn)), self._recipe.crop)
            yield x, labels_at(self._y, rows)


def labels_at(y: Tensor, index: Tensor) -> Tensor:
    """The labels of the records at `index`, int64 (..., models, batch).

    `y` is (records,), has soft labels (records, classes), or soft labels for each model (models, records,
    classes).
    """
    if y.ndim < 3:
        return y.index_select(0, index.reshape(-1)).view(*index.shape, *y.shape[1:])
    return y[torch.arange(len(y), device=y.device)[:, None], index]


@contextmanager
def _frozen(idle: IntArray, tensors: list[Tensor]) -> Iterator[None]:
    """Keeps models that have no batch at this step exactly where they are."""
    rows = torch.from_numpy(idle)
    before = [t[rows] for t in tensors]
    yield
    for tensor, value in zip(tensors, before, strict=True):
        tensor[rows] = value
