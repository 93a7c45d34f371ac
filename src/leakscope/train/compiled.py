"""Small perceptrons on a CPU, by compiled code that takes all steps of a model at a time; without torch.

The code knows plain batches of records and those of DP-SGD, class indices or real numbers as labels,
cross-entropy (smoothed or not) or squared error, and every optimizer. Any other recipe goes through
`HostSteps`, and so do large networks, which are as fast by batched matrix products.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.recipe import OPTIMIZERS, Recipe
from leakscope.train.compiler import library
from leakscope.train.poisson import Plan

MOST_PARAMETERS = 50_000  # of one model; torch is as fast from about twice as many on
PRODUCTS_AT_ONCE = 20e9  # multiplications in one call, about a second: training is saved between calls
PRODUCTS_WORTH_A_CALL = 1e9  # shorter epochs are taken together, as far as nobody looks in between
_PRODUCTS_OF_A_THREAD = 2e6  # less work is done before another thread has begun
_PARTS_PER_THREAD = 4  # on a busy machine, one thread gets further than another
_OPTIMIZERS = {name: number for number, name in enumerate(OPTIMIZERS)}

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


def perceptron_library() -> ctypes.CDLL | None:
    """The compiled code, once it has trained as torch does on this machine; None where there is none."""
    return library("perceptrons", _is_right)


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Loads torch, but only when the code was just compiled."""
    from leakscope.train.compiled_check import is_right

    return is_right(loaded)


def knows_settings(recipe: Recipe) -> bool:
    """Whether the code knows a recipe, whatever its network."""
    is_changed = recipe.mixup or recipe.sam_rho or recipe.entropy_weight or recipe.relax_loss
    return not is_changed and not recipe.flips and not recipe.crop


def prepare_for(recipe: Recipe) -> None:
    """Compiles now what training would compile with its first step, where it would."""
    if knows_settings(recipe):
        perceptron_library()


class Layers(NamedTuple):
    """The shape of a block's networks, as perceptrons.c wants it: int64 (layers + 1,), then (layers,) each.

    Attributes:
        sizes: numbers of inputs and of the units of each layer.
        activations: after each layer; 0: none, 1: ReLU, 2: tanh.
        is_tall: whether a layer has more units than inputs; its weights are stored (models, inputs, units),
            else (models, units, inputs).
    """

    sizes: IntArray
    activations: IntArray
    is_tall: IntArray

    @classmethod
    def of(cls, sizes: Sequence[int], activations: Sequence[int]) -> Layers:
        """`is_tall` follows from the sizes."""
        widths: IntArray = np.array(sizes, dtype=np.int64)
        is_tall = (widths[1:] > widths[:-1]).astype(np.int64)
        return cls(widths, np.array(activations, dtype=np.int64), is_tall)

    @property
    def n_parameters(self) -> int:
        """Of one model."""
        return int((self.sizes[1:] * (self.sizes[:-1] + 1)).sum())


class Batches(NamedTuple):
    """Some steps of a block; (steps, models, rows) unless said otherwise.

    Attributes:
        order: the records.
        weight: what each row weighs in the loss.
        clip: the largest norm of each row's gradient; (steps,) of zeros without privacy.
        idle: bool (steps, models), models that do not move.
        lr: (steps,).
    """

    order: AnyArray
    weight: AnyArray
    clip: AnyArray
    idle: AnyArray
    lr: AnyArray | list[float]

    def part(self, steps: slice) -> Batches:
        """Some of the steps."""
        order, weight, clip, idle, lr = self
        return Batches(order[steps], weight[steps], clip[steps], idle[steps], lr[steps])


class CompiledTraining:
    """A block of perceptrons in training; models are shared out among threads.

    Args:
        loaded: the compiled code.
        layers: the networks' shape.
        state: parameters, then none, one or two moments of the optimizer; each float32 (models, ...) per
            weight and bias, in the order of layers. They are changed in place.
        plan: the batches.
        recipe: how to train.
        smoothing: of the labels.
        n_threads: as many train at once.
    """

    def __init__(
        self,
        loaded: ctypes.CDLL,
        layers: Layers,
        state: Sequence[Sequence[AnyArray]],
        plan: Plan,
        recipe: Recipe,
        smoothing: float,
        n_threads: int,
    ) -> None:
        self._call, self._layers, self._state, self._n_threads = (
            loaded.train_perceptrons, layers, state, n_threads)  # fmt: skip
        self._pointers = [*map(_pointers_to, state)]  # valid as long as the arrays live
        self._n_models = len(plan.models)
        self.products_per_step = 3 * plan.batch * layers.n_parameters * self._n_models
        addresses = [ctypes.addressof(pointers) for pointers in self._pointers]
        self._training = _Training(
            n_layers=len(layers.activations),
            n_models=self._n_models,
            batch=plan.batch,
            **dict(zip(("sizes", "activations", "is_tall"), map(_address, layers), strict=True)),
            **dict(zip(("values", "moments1", "moments2"), addresses, strict=False)),
            optimizer=_OPTIMIZERS[recipe.optimizer],
            nesterov=recipe.nesterov,
            smoothing=smoothing,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )
        self._inputs: tuple[AnyArray, AnyArray] | None = None
        self._pool: ThreadPoolExecutor | None = None

    def train_on(self, x: AnyArray, y: AnyArray) -> None:
        """The records of the next steps: float32 (records, ...), and int64 or float32 (records,)."""
        self._inputs = x, y  # their memory must live as long as it is used
        self._training.x = _address(x)
        setattr(self._training, "numbers" if y.dtype == np.float32 else "classes", _address(y))

    def add_noise(self, draw: ctypes._NamedFuncPointer, keys: IntArray, scale: float) -> None:
        """Every step from now on adds noise of standard deviation `scale`, drawn by `draw`."""
        self._training.draw = ctypes.cast(draw, ctypes.c_void_p).value
        self._training.keys, self._training.noise = _address(keys), scale

    def take(self, batches: Batches, n_before: int, first_step: int = 0) -> None:
        """Takes steps with all models, after `n_before` others; `first_step` numbers the noise."""
        dtypes = (np.int64, np.float32, np.float32, np.bool_, np.float64)
        arrays: list[AnyArray] = [
            np.ascontiguousarray(a, dtype) for a, dtype in zip(batches, dtypes, strict=True)
        ]
        training, n_steps = self._training, len(batches.order)
        training.n_steps, training.batch, training.steps_before = n_steps, batches.order.shape[2], n_before
        training.order, training.row_weight, training.clip, training.idle, training.lr = map(_address, arrays)
        training.first_step = first_step
        self._share_out(n_steps * self.products_per_step)

    def _share_out(self, n_products: float) -> None:
        """Trains all models; threads take the next few models when they are done with some."""
        n_models, n_useful = self._n_models, n_products / _PRODUCTS_OF_A_THREAD
        n_threads = max(1, int(min(self._n_threads, n_useful)))
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


def _pointers_to(arrays: Sequence[AnyArray]) -> _Pointers:
    assert all(a.flags.c_contiguous and a.dtype == np.float32 for a in arrays), "stacked parameters are"
    return (ctypes.c_void_p * len(arrays))(*map(_address, arrays))


def _address(array: AnyArray) -> int:
    return int(array.__array_interface__["data"][0])
