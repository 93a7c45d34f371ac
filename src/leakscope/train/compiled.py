"""The steps of small perceptrons on a CPU, by compiled code that takes all steps of a model at a time.

The code knows plain batches of records and those of DP-SGD, class indices or real numbers as labels,
cross-entropy (smoothed or not) or squared error, and every optimizer. Any other recipe goes through
`HostSteps`, and so do large networks, which are as fast by batched matrix products.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leakscope.array_types import AnyArray, IntArray
from leakscope.privacy.settings import Privacy
from leakscope.recipe import OPTIMIZERS, Recipe
from leakscope.train.augment import Views, is_augmented
from leakscope.train.compiler import library
from leakscope.train.dense import DenseStack
from leakscope.train.losses import Objective
from leakscope.train.mixup import Mixes
from leakscope.train.noise import compiled_numbers
from leakscope.train.poisson import NOBODY, Plan, PoissonPlan, plan_of
from leakscope.train.steps import GATHERED_AT_ONCE, AfterStep, HostSteps, Stack, Steps
from leakscope.types import Design

MOST_PARAMETERS = 50_000  # of one model; torch is as fast from about twice as many on
PRODUCTS_AT_ONCE = 20e9  # multiplications in one call, about a second: training is saved between calls
PRODUCTS_WORTH_A_CALL = 1e9  # shorter epochs are taken together, as far as nobody looks in between
_PRODUCTS_OF_A_THREAD = 2e6  # less work is done before another thread has begun
_PARTS_PER_THREAD = 4  # on a busy machine, one thread gets further than another
_ACTIVATIONS: dict[type[nn.Module] | None, int] = {None: 0, nn.ReLU: 1, nn.Tanh: 2}
_OPTIMIZERS = {name: number for number, name in enumerate(OPTIMIZERS)}
_TOLERANCE = 1e-5  # of the check; parameters are about 0.3

Read = Callable[[Tensor], Tensor]

if TYPE_CHECKING:
    _Pointers = ctypes.Array[ctypes.c_void_p]


class _Training(ctypes.Structure):
    """`training` of perceptrons.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n_layers", "n_models", "n_steps", "batch", "steps_before")),
        *((name, ctypes.c_void_p) for name in ("sizes", "activations", "is_tall")),
        *((name, ctypes.c_void_p) for name in ("values", "moments1", "moments2")),
        *((name, ctypes.c_void_p) for name in ("x", "numbers", "classes", "order", "row_weight", "idle")),
        ("lr", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("optimizer", "nesterov")),
        *((name, ctypes.c_double) for name in ("smoothing", "momentum", "weight_decay")),
        *((name, ctypes.c_void_p) for name in ("draw", "keys", "clip")),
        ("first_step", ctypes.c_int64),
        ("noise", ctypes.c_double),
    )


def compiled_steps(
    stack: Stack, x: Tensor, y: Tensor, plan: Plan, recipe: Recipe, read: Read | None = None
) -> CompiledSteps | None:
    """The steps of a block whose recipe and networks the compiled code knows; None for any other.

    Where `x` is on disk, `read` reads the records at an index.
    """
    if not isinstance(stack, DenseStack) or not _knows(stack, x, y, recipe):
        return None
    loaded = _library()
    return None if loaded is None else CompiledSteps(loaded, stack, x, y, plan, recipe, read)


def _library() -> ctypes.CDLL | None:
    """That of the perceptrons, where the one of the noise works, too: its check adds noise."""
    return None if compiled_numbers() is None else library("perceptrons", is_right)


def prepare_for(recipe: Recipe) -> None:
    """Compiles now what training would compile with its first step, where it would."""
    if _knows_settings(recipe):
        _library()


def _knows_settings(recipe: Recipe) -> bool:
    is_changed = recipe.mixup or recipe.sam_rho or recipe.entropy_weight or recipe.relax_loss
    return not is_changed and not is_augmented(recipe)


def _knows(stack: DenseStack, x: Tensor, y: Tensor, recipe: Recipe) -> bool:
    are_tensors_plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    if not _knows_settings(recipe) or not are_tensors_plain or y.ndim != 1 or not len(y):
        return False
    n_inputs, n_outputs = stack.sizes[0], stack.sizes[-1]
    if n_inputs != x[0].numel() or sum(p[0].numel() for p in stack.parameters) > MOST_PARAMETERS:
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
        self._call, self._plan, self._read = loaded.train_perceptrons, plan, read
        self._inputs = x, y.contiguous()  # addresses below are valid as long as these live
        self._layers = _layers_of(stack)
        self._pointers = [*map(_pointers_to, (stack.parameters, *self._optimizer.moments))]
        self._training = self._described(stack.objective.smoothing(stack.sizes[-1]))
        self._describe_inputs(*self._inputs)
        self._describe_noise()
        n_parameters = sum(p[0].numel() for p in stack.parameters)
        self._products_per_step = 3 * plan.batch * n_parameters * len(plan.models)
        self._together = max(1, int(PRODUCTS_AT_ONCE / self._products_per_step))
        if read is not None:
            n_numbers = len(plan.models) * plan.batch * x[0].numel()
            self._together = min(self._together, max(1, GATHERED_AT_ONCE // n_numbers))
        self._pool: ThreadPoolExecutor | None = None
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
        self._take(order, weight, np.zeros(len(order)), np.tile(self._plan.idle, (len(waiting), 1)), lr)

    def _described(self, smoothing: float) -> _Training:
        """All but the batches."""
        recipe, plan = self._recipe, self._plan
        addresses = [ctypes.addressof(pointers) for pointers in self._pointers]
        return _Training(
            n_layers=len(self._layers[1]),
            n_models=len(plan.models),
            batch=plan.batch,
            **dict(zip(("sizes", "activations", "is_tall"), map(_address, self._layers), strict=True)),
            **dict(zip(("values", "moments1", "moments2"), addresses, strict=False)),
            optimizer=_OPTIMIZERS[recipe.optimizer],
            nesterov=recipe.nesterov,
            smoothing=smoothing,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )

    def _describe_noise(self) -> None:
        """Nothing without privacy."""
        noise, draw = self._noise, compiled_numbers()
        if noise is not None and draw is not None:
            self._training.draw = ctypes.cast(draw, ctypes.c_void_p).value
            self._training.keys, self._training.noise = _address(noise.keys), noise.scale

    def _describe_inputs(self, x: Tensor, y: Tensor) -> None:
        """Where the records of the next steps are."""
        self._training.x = x.data_ptr()
        setattr(self._training, "numbers" if y.is_floating_point() else "classes", y.data_ptr())

    def run_epoch(
        self,
        order: AnyArray,
        views: Views | None,
        mixes: Mixes | None,
        lr: list[float],
        first: int,
        after_step: AfterStep,
    ) -> None:
        """One epoch from step `first` on; nothing is said between steps that are taken together.

        A short epoch waits for others, until there is enough to do or `finish` is called.
        """
        assert views is None and mixes is None, "other recipes are launched by the host"
        n_worth_a_call = min(PRODUCTS_WORTH_A_CALL, PRODUCTS_AT_ONCE) / self._products_per_step
        if self._can_wait and not first and len(order) < n_worth_a_call:
            self._waiting.append((order, lr))
            if sum(len(own) for own, _ in self._waiting) >= n_worth_a_call:
                self.finish()
            return
        self.finish()
        weight, clip = self._plan.weights(order), self._clips(order)
        for start in range(first, len(order), self._together):
            some = slice(start, start + self._together)
            self._take(order[some], weight[some], clip[some], self._plan.idle[some], lr[some])
            after_step(min(some.stop, len(order)))

    def _clips(self, order: AnyArray) -> AnyArray:
        """The largest norm of each row's gradient; nothing without privacy."""
        privacy = self._recipe.privacy
        if privacy is None or not isinstance(self._plan, PoissonPlan):
            return np.zeros(len(order))
        part = self._plan.clips(order)
        return np.full(order.shape, privacy.clip) if part is None else privacy.clip * part

    def _take(
        self, order: AnyArray, weight: AnyArray, clip: AnyArray, idle: AnyArray, lr: list[float] | AnyArray
    ) -> None:
        """Takes these steps with all models; of records on disk, only those of the steps are in memory."""
        if self._read is not None:
            order, index = _renumbered(order)
            inputs = self._read(index).contiguous(), self._inputs[1][index]
            self._describe_inputs(*inputs)
        dtypes = (np.int64, np.float32, np.float32, np.bool_, np.float64)
        given = zip((order, weight, clip, idle, lr), dtypes, strict=True)
        arrays: list[AnyArray] = [np.ascontiguousarray(values, dtype) for values, dtype in given]
        training, count, noise = self._training, self._optimizer.count, self._noise
        training.n_steps, training.batch, training.steps_before = len(order), order.shape[2], int(count)
        training.order, training.row_weight, training.clip, training.idle, training.lr = map(_address, arrays)
        training.first_step = 0 if noise is None else noise.step
        self._share_out(len(order))
        count += len(order)
        if noise is not None:
            noise.start(noise.step + len(order))

    def _share_out(self, n_steps: int) -> None:
        """Trains all models; threads take the next few models when they are done with some."""
        n_models, n_products = len(self._plan.models), n_steps * self._products_per_step
        n_threads = max(1, int(min(torch.get_num_threads(), n_products / _PRODUCTS_OF_A_THREAD)))
        size = ceil(n_models / (_PARTS_PER_THREAD * n_threads)) if n_threads > 1 else n_models
        parts = deque((start, min(start + size, n_models)) for start in range(0, n_models, size))
        others = []
        if n_threads > 1:
            self._pool = self._pool or ThreadPoolExecutor(n_threads)
            others = [self._pool.submit(self._work, parts) for _ in range(n_threads - 1)]
        try:
            self._work(parts)
        finally:  # also when interrupted: nobody works on memory that is given back
            parts.clear()
            if others:
                wait(others)
        for other in others:
            other.result()

    def _work(self, parts: deque[tuple[int, int]]) -> None:
        """Trains models until none is left; the interpreter is free meanwhile."""
        while parts:
            try:
                first, end = parts.popleft()
            except IndexError:  # another thread was faster
                return
            if self._call(ctypes.byref(self._training), ctypes.c_int64(first), ctypes.c_int64(end)):
                raise MemoryError("no memory left to train a model")


def _layers_of(stack: DenseStack) -> tuple[IntArray, IntArray, IntArray]:
    """Sizes, activations and ways of storage, as perceptrons.c wants them."""
    activations = [_ACTIVATIONS[activation] for activation in stack.activations]
    sizes, numbers, is_tall = (np.array(a, dtype=np.int64) for a in (stack.sizes, activations, stack.is_tall))
    return sizes, numbers, is_tall


def _renumbered(order: AnyArray) -> tuple[AnyArray, Tensor]:
    """Batches as positions among the records that occur in them, and these records."""
    is_nobody = order == NOBODY
    records, positions = np.unique(np.where(is_nobody, order.max(), order), return_inverse=True)
    return np.where(is_nobody, NOBODY, positions.reshape(order.shape)), torch.from_numpy(records)


def _pointers_to(tensors: list[Tensor]) -> _Pointers:
    assert all(t.is_contiguous() and t.dtype == torch.float32 for t in tensors), "stacked parameters are"
    return (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))


def _address(array: AnyArray) -> int:
    return int(array.__array_interface__["data"][0])


def is_right(loaded: ctypes.CDLL) -> bool:
    """Whether a library trains as torch does: every optimizer and activation, odd sizes, privacy or not."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return all(
            _agrees(loaded, _check_recipe(optimizer, is_real, privacy), activation, is_real)
            for optimizer in OPTIMIZERS
            for activation in (nn.ReLU, nn.Tanh)
            for is_real in (False, True)
            for privacy in (None, Privacy(noise_multiplier=0.5, clip=0.7))
        )


def _check_recipe(optimizer: Any, is_real: bool, privacy: Privacy | None) -> Recipe:
    return Recipe(
        optimizer=optimizer,
        lr=0.02,
        momentum=0.9 if optimizer == "sgd" else 0.0,
        weight_decay=0.01,
        label_smoothing=0.0 if is_real else 0.1,
        batch_size=7,
        privacy=privacy,
    )


def _agrees(loaded: ctypes.CDLL, recipe: Recipe, activation: type[nn.Module], is_real: bool) -> bool:
    """Whether one epoch of two models ends with the parameters that torch ends with."""
    x, classes = torch.randn(20, 11), torch.arange(20) % 3
    y, n_outputs = (classes.float(), 1) if is_real else (classes, 3)
    nets: list[nn.Module] = [
        nn.Sequential(nn.Linear(11, 9), activation(), nn.Linear(9, n_outputs)) for _ in range(2)
    ]
    plan = plan_of(Design(np.arange(20) < np.array([[20], [13]])), None, np.arange(2), recipe, 0)
    (order,) = plan.epochs(1)
    stacks = [DenseStack(nets, Objective.of(recipe), x.device) for _ in range(2)]
    by_torch = HostSteps(stacks[0], x, y, plan, recipe)
    compiled = CompiledSteps(loaded, stacks[1], x, y, plan, recipe)
    for steps in (by_torch, compiled):
        steps.run_epoch(order, None, None, [recipe.lr] * plan.steps, 0, lambda _: None)
        steps.finish()
    pairs = zip(*(stack.parameters for stack in stacks), strict=True)
    return all(bool(((a - b).abs() < _TOLERANCE).all()) for a, b in pairs)
