"""The steps of one epoch, launched by the host one by one: on a CPU, and where capture fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.scratch import blocks
from leakscope.privacy.accounting import noise_multiplier
from leakscope.recipe import Recipe
from leakscope.train.augment import Views, gathered, is_augmented, padded, views_at
from leakscope.train.clipping import Clip
from leakscope.train.losses import Objective
from leakscope.train.mixup import Mixes, mixed
from leakscope.train.noise import Noise, noise_of
from leakscope.train.optimizer import Optimizer, sharpness_aware
from leakscope.train.poisson import NOBODY, Plan, PoissonPlan

GATHERED_AT_ONCE = 4_000_000  # numbers copied into one run of batches

_NOTHING = nullcontext()
_WIDTH_UNIT = 4  # rows; batches of DP-SGD have few widths, so that memory is used again

AfterStep = Callable[[int], None]
"""Called with the number of steps of the epoch that are done."""


class Epoch(NamedTuple):
    """What was drawn for one epoch of a block.

    Attributes:
        order: the records, int64 (steps, models, batch), or what `BatchPlan.draws` gives.
        lr: one learning rate per step.
        first: the step to begin with; those before it were taken before training was interrupted.
        views: how records are looked at; None: as they are.
        mixes: the records to mix them with; None: none.
    """

    order: AnyArray
    lr: list[float]
    first: int = 0
    views: Views | None = None
    mixes: Mixes | None = None


class Stack(Protocol):
    """A block of models that can be trained and evaluated; every tensor's first axis is the model."""

    parameters: list[Tensor]
    buffers: list[Tensor]
    nets: list[nn.Module]
    """Modules that run in training, whose attributes may change."""
    objective: Objective

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the objective on each model's batch, in the order of `parameters`."""

    def clipped_gradients(self, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip) -> list[Tensor]:
        """`sum(row_weight * gradient)` over rows, each row's gradient scaled down to norm `clip`.

        x is (models, rows, views, ...); the gradients of a row's views are averaged first. `clip` is one norm
        for all, or float (models, rows).
        """

    def in_own_shapes(self, tensors: list[Tensor]) -> list[Tensor]:
        """Views of tensors like `parameters`, in the shapes of the networks' own parameters."""

    def outputs(self, x: Tensor) -> Tensor:
        """(models, rows, ...) -> (models, rows, outputs)."""

    def state(self) -> dict[str, Tensor]:
        """Parameters under the module's own names and shapes."""


class Steps:
    """What the steps of a block have in common, whoever launches them.

    Attributes:
        ranks_draws: whether `run_epoch` takes what `BatchPlan.draws` gives in place of the order of records.
    """

    ranks_draws = False

    def __init__(self, stack: Stack, plan: Plan, recipe: Recipe) -> None:
        self._stack, self._recipe = stack, recipe
        self._optimizer = Optimizer(recipe, stack.parameters)
        self._noise: Noise | None = None
        if isinstance(plan, PoissonPlan):
            assert recipe.privacy is not None, "plan_of() makes such plans for DP-SGD"
            multiplier = noise_multiplier(recipe.privacy, plan.sampling, recipe.epochs)
            scale = multiplier * recipe.privacy.clip / plan.sampling.batch_size
            own = stack.in_own_shapes(stack.parameters)
            self._noise = noise_of(plan.seed, plan.models, own, scale)

    @property
    def is_done(self) -> bool:
        """Whether all epochs that were run are over, or at least queued on the device."""
        return True

    def finish(self) -> None:
        """Ends the epochs that are not over."""

    def start(self, step: int) -> None:
        """The next step is number `step` of the training."""
        if self._noise is not None:
            self._noise.start(step)

    @property
    def tensors(self) -> list[Tensor]:
        """Everything a step changes, but for its number."""
        return [*self._optimizer.tensors, self._optimizer.count, *self._stack.buffers]

    @property
    def _of_models(self) -> list[Tensor]:
        """Those whose first axis is the model."""
        return [*self._optimizer.tensors, *self._stack.buffers]

    def _gradients(
        self, x: Tensor, y: Tensor, row_weight: Tensor, clip_part: Tensor | None = None
    ) -> list[Tensor]:
        """`clip_part` is the part of the clipping norm that each row has; None: all have the whole."""
        stack, recipe = self._stack, self._recipe
        if recipe.privacy is not None and self._noise is not None:
            clip = recipe.privacy.clip if clip_part is None else recipe.privacy.clip * clip_part
            gradients = stack.clipped_gradients(x, y, row_weight, clip)
            self._noise.add_(stack.in_own_shapes(gradients))
            return gradients
        if recipe.sam_rho == 0:  # small models take microseconds: not one call more than needed
            return stack.gradients(x, y, row_weight)
        here = partial(stack.gradients, x, y, row_weight)
        return sharpness_aware(here, stack.parameters, stack.buffers, recipe.sam_rho)


class HostSteps(Steps):
    """Steps launched by the host; `rows` gives the records at an index, by default those of `x`."""

    def __init__(
        self,
        stack: Stack,
        x: Tensor,
        y: Tensor,
        plan: Plan,
        recipe: Recipe,
        rows: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(stack, plan, recipe)
        self._plan = plan
        self._rows = rows or partial(torch.index_select, x, 0)
        self._x, self._y = padded(x, recipe.crop) if is_augmented(recipe) else x, y
        self._idle = [np.flatnonzero(models) for models in plan.idle]

    def run_epoch(self, epoch: Epoch, after_step: AfterStep = lambda _: None) -> None:
        """One epoch, from its first step on."""
        order, lr, first, views, mixes = epoch
        device = self._x.device
        row_weight = torch.from_numpy(self._plan.weights(order)).to(device).unbind()
        clips = self._plan.clips(order) if isinstance(self._plan, PoissonPlan) else None
        clip_parts = None if clips is None else torch.from_numpy(clips).to(device)
        drawn = None if views is None else Views(*(v[first:].to(device) for v in views))
        if self._noise is not None:
            batches = self._private(order[first:], drawn)
        else:
            index = torch.from_numpy(order[first:]).to(device)
            batches = self._batches(index) if drawn is None else self._viewed(index, drawn)
        changed = self._of_models
        mixing = None if mixes is None else Mixes(*(t.to(device) for t in mixes))
        for step, (x, y) in enumerate(batches, first):
            if mixing is not None:
                x, y = (mixed(values, mixing.share[step], mixing.partner[step]) for values in (x, y))
            with _frozen(self._idle[step], changed) if len(self._idle[step]) else _NOTHING:
                weight = row_weight[step][:, : x.shape[1]]
                part = None if clip_parts is None else clip_parts[step, :, : x.shape[1]]
                self._optimizer.step(self._gradients(x, y, weight, part), lr[step])
            after_step(step + 1)

    def _batches(self, index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch; `index` is (steps, models, batch). Small ones are gathered together."""
        steps, models, batch = index.shape
        together = max(1, GATHERED_AT_ONCE // (models * batch * max(1, self._x[0].numel())))
        for some in blocks(steps, together):
            part = index[some]
            x = self._rows(part.reshape(-1)).view(*part.shape, *self._x.shape[1:])
            yield from zip(x, labels_at(self._y, part), strict=True)

    def _viewed(self, index: Tensor, views: Views) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch, each record flipped and cropped as drawn."""
        for step, rows in enumerate(index):
            x = gathered(self._x, rows, Views(*(v[step] for v in views)), self._recipe.crop)
            yield x, labels_at(self._y, rows)

    def _private(self, order: IntArray, views: Views | None) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch of DP-SGD, (models, rows, views, ...): as wide as their largest."""
        index = torch.from_numpy(np.maximum(order, 0)).to(self._x.device)
        largest = (order != NOBODY).sum(axis=2).max(axis=1)
        widths = np.clip(-(-largest // _WIDTH_UNIT) * _WIDTH_UNIT, 1, order.shape[2])
        for step, width in enumerate(widths.tolist()):
            rows = index[step, :, :width]
            if views is None:
                x = self._rows(rows.reshape(-1)).view(*rows.shape, 1, *self._x.shape[1:])
            else:
                x = views_at(self._x, rows, Views(*(v[step, :, :width] for v in views)), self._recipe.crop)
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
