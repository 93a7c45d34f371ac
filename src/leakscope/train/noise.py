"""The noise of DP-SGD: standard normal numbers that depend on (run seed, model, step) only.

A number is a function of the model's key, the step and its position (Philox 4x32 with ten rounds, Salmon et
al. 2011, then Box and Muller's method), so a step can be resumed anywhere, and no two steps of a model share
a counter. Positions follow the shapes and the order of the network's own parameters, so every trainer adds
the same numbers. On a CPU, compiled code draws them where there is a compiler (noise.c); everywhere else,
torch does, and a captured step on a CUDA device can. All of them agree within rounding.
"""

from __future__ import annotations

import ctypes
from math import prod, tau

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import IntArray
from leakscope.randomness import Purpose, seed_integer
from leakscope.train.compiler import library
from leakscope.train.hashing import shifted

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_WORD = 2**32 - 1
_TOLERANCE = 4e-6  # of the check: numbers are below 6.7, and float32 has seven digits


class Noise:
    """Adds noise of standard deviation `scale` to the gradients of a block, step by step.

    Attributes:
        keys: int64 (models,), on the host.
        n_blocks: blocks of four numbers that a model needs in each step.
        scale: standard deviation.
        tensors: what a step changes on the device.
    """

    def __init__(
        self,
        seed: int,
        models: IntArray,
        shapes: list[tuple[int, ...]],
        scale: float,
        device: torch.device,
    ) -> None:
        self.keys: IntArray = np.array([seed_integer(seed, int(m), Purpose.NOISE) for m in models])
        self.n_blocks = -(-sum(map(prod, shapes)) // 4)
        self.scale = scale
        self._shapes, self._device_keys = shapes, torch.from_numpy(self.keys).to(device)[:, None]
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self.tensors = [self._step]
        self._compiled = compiled_numbers() if device.type == "cpu" else None

    @property
    def step(self) -> int:
        """The number of the next step."""
        return int(self._step)

    def start(self, step: int) -> None:
        """The next step is number `step` of the training."""
        self._step.fill_(step)

    def add_(self, gradients: list[Tensor]) -> None:
        """Adds the step's noise to gradients in the network's own shapes, (models, ...); moves on."""
        for gradient, part in zip(gradients, _cut(self._drawn(), self._shapes), strict=True):
            gradient.add_(part, alpha=self.scale)
        self._step += 1

    def _drawn(self) -> Tensor:
        if self._compiled is None:
            return normal_numbers(self._device_keys, self._step, self.n_blocks)
        drawn = torch.empty(len(self.keys), 4 * self.n_blocks)
        for key, row in zip(self.keys.tolist(), drawn, strict=True):
            self._compiled(key, self.step, self.n_blocks, row.data_ptr())
        return drawn


def noise_of(seed: int, models: IntArray, parameters: list[Tensor], scale: float) -> Noise:
    """Noise of standard deviation `scale` for a block; `parameters` are in the network's own shapes."""
    return Noise(seed, models, [tuple(p.shape[1:]) for p in parameters], scale, parameters[0].device)


def normal_numbers(keys: Tensor, step: Tensor, n_blocks: int) -> Tensor:
    """Standard normal numbers (models, 4 n_blocks) of keys (models, 1) and step (1,).

    All first numbers of the blocks come first, then all second ones, and so on.
    """
    words = philox(keys, torch.arange(n_blocks, device=keys.device), step)
    return torch.cat([n for pair in (words[:2], words[2:]) for n in _normal_pair(*pair)], dim=1)


def philox(keys: Tensor, position: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four words of Philox at the counters (position, 0, step), each from 0 to 2^32 - 1 as int64."""
    key = [keys & _WORD, shifted(keys, 32)]
    zero = torch.zeros_like(keys + position)
    a, b, c, d = zero + position, zero, zero + (step & _WORD), zero + shifted(step, 32)
    for _ in range(_ROUNDS):
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b = shifted(right, 32) ^ b ^ key[0], right & _WORD
        c, d = shifted(left, 32) ^ d ^ key[1], left & _WORD
        key = [(k + more) & _WORD for k, more in zip(key, _KEY_INCREMENTS, strict=True)]
    return a, b, c, d


def _normal_pair(of_radius: Tensor, of_angle: Tensor) -> tuple[Tensor, Tensor]:
    """Two normal numbers from two words; the uniform one is rounded as in noise.c, never to 0."""
    uniform = (shifted(of_radius, 1).float() + 0.5) * 2.0**-31
    radius = uniform.double().log_().mul_(-2).sqrt_()
    angle = of_angle.double() * (tau * 2.0**-32)
    return (radius * angle.cos()).float(), (radius * angle.sin()).float()


def compiled_numbers() -> ctypes._NamedFuncPointer | None:
    """`normal_numbers` of noise.c; None where there is no compiler."""
    loaded = library("noise", is_right)
    return None if loaded is None else _function(loaded)


def _function(loaded: ctypes.CDLL) -> ctypes._NamedFuncPointer:
    function = loaded.normal_numbers
    function.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p]
    function.restype = None
    return function


def is_right(loaded: ctypes.CDLL) -> bool:
    """Whether compiled code draws the numbers that torch draws; also where counters and keys are large."""
    draw = _function(loaded)
    for key, step, n_blocks in ((0, 0, 1000), (2**63 - 1, 2**32 + 5, 1), (1234567890123456789, 7, 21)):
        wanted = normal_numbers(torch.tensor([[key]]), torch.tensor([step]), n_blocks)[0]
        drawn = torch.empty(4 * n_blocks)
        draw(key, step, n_blocks, drawn.data_ptr())
        if not bool(((drawn - wanted).abs() <= _TOLERANCE).all()):
            return False
    return True


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
