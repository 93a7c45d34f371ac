"""The noise of DP-SGD: standard normal numbers that depend on (run seed, model, step) only.

Numbers are drawn in the shapes and the order of the network's own parameters, so every trainer adds the same
ones. On a CPU they come from one Mersenne twister per model, whose full state is drawn anew every few steps:
a resumed training starts at its period, not at the first step. On a CUDA device they are a hash of (key,
step, position), which a captured step can compute by itself. The two devices draw different numbers of one
law.
"""

from __future__ import annotations

from math import prod, tau
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import IntArray
from leakscope.randomness import Purpose, generator, seed_integer
from leakscope.train.hashing import WEYL, mixed, shifted

_PERIOD = 16  # steps between new states of a generator
_STATE_BEGINS, _STATE_WORDS = 24, 624  # where torch's generator stores the state of its Mersenne twister
_STEP = 2685821657736338717  # an odd number, from one step's key to the next


class Noise(Protocol):
    """Adds noise to gradients, step by step."""

    tensors: list[Tensor]
    """What a step changes on the device."""

    def start(self, step: int) -> None:
        """The next step is number `step` of the training."""

    def add_(self, gradients: list[Tensor]) -> None:
        """Adds the step's noise to gradients in the network's own shapes, (models, ...); moves on."""


def noise_of(seed: int, models: IntArray, parameters: list[Tensor], scale: float) -> Noise:
    """Noise of standard deviation `scale` for a block; `parameters` are in the network's own shapes."""
    make = HostNoise if parameters[0].device.type == "cpu" else DeviceNoise
    return make(seed, models, [tuple(p.shape[1:]) for p in parameters], scale, parameters[0].device)


class HostNoise:
    """Noise on a CPU."""

    def __init__(
        self,
        seed: int,
        models: IntArray,
        shapes: list[tuple[int, ...]],
        scale: float,
        device: torch.device,
    ) -> None:
        self._seed, self._models, self._scale = seed, models.tolist(), scale
        drawn = torch.empty(len(models), sum(map(prod, shapes)), device=device)
        self._rows = list(drawn)
        self._parts = _cut(drawn, shapes)
        self.tensors: list[Tensor] = []
        self._generators = [torch.Generator() for _ in self._models]
        self._step = 0

    def start(self, step: int) -> None:
        """The next step is number `step` of the training."""
        if step == self._step:
            return
        self._step = step - step % _PERIOD
        while self._step < step:
            self._draw()

    def add_(self, gradients: list[Tensor]) -> None:
        """Adds the step's noise; moves on."""
        self._draw()
        for gradient, drawn in zip(gradients, self._parts, strict=True):
            gradient.add_(drawn, alpha=self._scale)

    def _draw(self) -> None:
        if self._step % _PERIOD == 0:
            for model, own in zip(self._models, self._generators, strict=True):
                own.set_state(_fresh_state(self._seed, model, self._step // _PERIOD))
        for row, own in zip(self._rows, self._generators, strict=True):
            row.normal_(generator=own)
        self._step += 1


def _fresh_state(seed: int, model: int, period: int) -> Tensor:
    """A state of torch's generator, all of it drawn; `manual_seed` would use 32 bits of a seed."""
    words = generator(seed, model, Purpose.NOISE, period).integers(2**32, size=_STATE_WORDS, dtype=np.uint32)
    state = torch.Generator().manual_seed(0).get_state()
    state.numpy()[_STATE_BEGINS : _STATE_BEGINS + 8 * _STATE_WORDS].view(np.uint64)[:] = words
    return state


class DeviceNoise:
    """Noise on a CUDA device."""

    def __init__(
        self,
        seed: int,
        models: IntArray,
        shapes: list[tuple[int, ...]],
        scale: float,
        device: torch.device,
    ) -> None:
        keys = [seed_integer(seed, int(model), Purpose.NOISE) for model in models]
        self._keys = torch.tensor(keys, device=device)[:, None]
        self._shapes, self._scale = shapes, scale
        self._n_pairs = -(-sum(map(prod, shapes)) // 2)
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self.tensors = [self._step]

    def start(self, step: int) -> None:
        """The next step is number `step` of the training."""
        self._step.fill_(step)

    def add_(self, gradients: list[Tensor]) -> None:
        """Adds the step's noise; moves on."""
        drawn = normal_numbers(mixed(self._keys + self._step * _STEP), self._n_pairs)
        for gradient, part in zip(gradients, _cut(drawn, self._shapes), strict=True):
            gradient.add_(part, alpha=self._scale)
        self._step += 1


def _cut(drawn: Tensor, shapes: list[tuple[int, ...]]) -> list[Tensor]:
    """Views of numbers (models, n) as one tensor (models, *shape) per parameter; some may be left over."""
    ends = np.cumsum([prod(shape) for shape in shapes]).tolist()
    begins = [0, *ends[:-1]]
    return [
        _laid_out(drawn[:, begin:end], shape) for begin, end, shape in zip(begins, ends, shapes, strict=True)
    ]


def _laid_out(numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Matrices have their longer side last in memory, as the fastest trainer has them."""
    if len(shape) == 2 and shape[0] > shape[1]:
        return numbers.view(-1, shape[1], shape[0]).transpose(1, 2)
    return numbers.view(-1, *shape)


def normal_numbers(keys: Tensor, n_pairs: int) -> Tensor:
    """Standard normal numbers (keys, 2 n_pairs), hashes of key and position, by Box and Muller's method."""
    bits = mixed(torch.arange(n_pairs, device=keys.device) * WEYL + keys)
    # The upper 32 bits, never 0, give the radius; 24 of the lower ones the angle.
    radius = ((shifted(bits, 32) + 1).double() * 2.0**-32).log_().mul_(-2).sqrt_().float()
    angle = (shifted(bits << 40, 40)).float() * (tau * 2.0**-24)
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
