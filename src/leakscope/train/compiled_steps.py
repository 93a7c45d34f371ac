"""The steps of a block of torch's networks by compiled code (`compiled.py`), on the tensors' own memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray
from leakscope.recipe import Recipe
from leakscope.train import compiled
from leakscope.train.compiled import Batches, CompiledTraining, Layers, knows_settings, perceptron_library
from leakscope.train.dense import DenseStack
from leakscope.train.noise import compiled_numbers
from leakscope.train.poisson import NOBODY, Plan, PoissonPlan
from leakscope.train.steps import GATHERED_AT_ONCE, AfterStep, Epoch, Stack, Steps

_ACTIVATIONS: dict[type[nn.Module] | None, int] = {None: 0, nn.ReLU: 1, nn.Tanh: 2}

Read = Callable[[Tensor], Tensor]


def compiled_steps(
    stack: Stack, x: Tensor, y: Tensor, plan: Plan, recipe: Recipe, read: Read | None = None
) -> CompiledSteps | None:
    """The steps of a block whose recipe and networks the compiled code knows; None for any other.

    Where `x` is on disk, `read` reads the records at an index.
    """
    if not isinstance(stack, DenseStack) or not _knows(stack, x, y, recipe):
        return None
    loaded = perceptron_library()
    return None if loaded is None else CompiledSteps(loaded, stack, x, y, plan, recipe, read)


def _knows(stack: DenseStack, x: Tensor, y: Tensor, recipe: Recipe) -> bool:
    are_tensors_plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    if not knows_settings(recipe) or not are_tensors_plain or y.ndim != 1 or not len(y):
        return False
    n_inputs, n_outputs = stack.sizes[0], stack.sizes[-1]
    if n_inputs != x[0].numel() or _layers_of(stack).n_parameters > compiled.MOST_PARAMETERS:
        return False
    if y.is_floating_point():
        return n_outputs == 1 and y.dtype == torch.float32
    return y.dtype == torch.int64 and int(y.min()) >= 0 and int(y.max()) < n_outputs


class CompiledSteps(Steps):
    """The steps of one block; models are shared out among as many threads as torch has."""

    def __init__(
        self,
        loaded: ctypes.CDLL,
        stack: DenseStack,
        x: Tensor,
        y: Tensor,
        plan: Plan,
        recipe: Recipe,
        read: Read | None = None,
    ) -> None:
        super().__init__(stack, plan, recipe)
        self._plan, self._read, self._y = plan, read, y.contiguous()
        smoothing = stack.objective.smoothing(stack.sizes[-1])
        state = [[t.numpy() for t in ts] for ts in (stack.parameters, *self._optimizer.moments)]
        self._training = CompiledTraining(
            loaded, _layers_of(stack), state, plan, recipe, smoothing, torch.get_num_threads()
        )
        self._training.train_on(x.numpy(), self._y.numpy())
        draw = compiled_numbers()
        if self._noise is not None and draw is not None:
            self._training.add_noise(draw, self._noise.keys, self._noise.scale)
        self._together = max(1, int(compiled.PRODUCTS_AT_ONCE / self._training.products_per_step))
        if read is not None:
            n_numbers = len(plan.models) * plan.batch * x[0].numel()
            self._together = min(self._together, max(1, GATHERED_AT_ONCE // n_numbers))
        self._waiting: list[tuple[AnyArray, list[float]]] = []
        # Batches of DP-SGD are of different widths; records on disk are read for one epoch at a time.
        self._can_wait = self._noise is None and read is None

    @property
    def is_done(self) -> bool:
        """Whether all epochs that were run are over."""
        return not self._waiting

    def finish(self) -> None:
        """Takes the steps of the epochs that wait."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        order, lr = (np.concatenate(each) for each in zip(*waiting, strict=True))
        weight = np.concatenate([self._plan.weights(own) for own, _ in waiting])
        idle = np.tile(self._plan.idle, (len(waiting), 1))
        self._take(Batches(order, weight, np.zeros(len(order)), idle, lr))

    def run_epoch(self, epoch: Epoch, after_step: AfterStep = lambda _: None) -> None:
        """One epoch, from its first step on; nothing is said between steps that are taken together.

        A short epoch waits for others, until there is enough to do or `finish` is called.
        """
        order, lr, first, views, mixes = epoch
        assert views is None and mixes is None, "other recipes are launched by the host"
        worth_a_call = min(compiled.PRODUCTS_WORTH_A_CALL, compiled.PRODUCTS_AT_ONCE)
        n_worth_a_call = worth_a_call / self._training.products_per_step
        if self._can_wait and not first and len(order) < n_worth_a_call:
            self._waiting.append((order, lr))
            if sum(len(own) for own, _ in self._waiting) >= n_worth_a_call:
                self.finish()
            return
        self.finish()
        whole = Batches(order, self._plan.weights(order), self._clips(order), self._plan.idle, lr)
        for start in range(first, len(order), self._together):
            some = slice(start, start + self._together)
            self._take(whole.part(some))
            after_step(min(some.stop, len(order)))

    def _clips(self, order: AnyArray) -> AnyArray:
        """The largest norm of each row's gradient; nothing without privacy."""
        privacy = self._recipe.privacy
        if privacy is None or not isinstance(self._plan, PoissonPlan):
            return np.zeros(len(order))
        part = self._plan.clips(order)
        return np.full(order.shape, privacy.clip) if part is None else privacy.clip * part

    def _take(self, batches: Batches) -> None:
        """Takes these steps with all models; of records on disk, only those of the steps are in memory."""
        if self._read is not None:
            order, index = _renumbered(batches.order)
            batches = batches._replace(order=order)
            self._training.train_on(self._read(index).contiguous().numpy(), self._y[index].numpy())
        count, noise = self._optimizer.count, self._noise
        self._training.take(batches, int(count), 0 if noise is None else noise.step)
        count += len(batches.order)
        if noise is not None:
            noise.start(noise.step + len(batches.order))


def _layers_of(stack: DenseStack) -> Layers:
    layers = Layers.of(stack.sizes, [_ACTIVATIONS[activation] for activation in stack.activations])
    assert layers.is_tall.astype(bool).tolist() == stack.is_tall, "weights are stored alike"
    return layers


def _renumbered(order: AnyArray) -> tuple[AnyArray, Tensor]:
    """Batches as positions among the records that occur in them, and these records."""
    is_nobody = order == NOBODY
    records, positions = np.unique(np.where(is_nobody, order.max(), order), return_inverse=True)
    return np.where(is_nobody, NOBODY, positions.reshape(order.shape)), torch.from_numpy(records)
