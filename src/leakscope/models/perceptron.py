"""The shipped perceptrons as numbers: shape, first parameters and outputs, without torch.

Loading torch takes as long as the rest of a small audit. So what is small enough is initialised, trained by
compiled code and evaluated here. The first parameters are those of torch to the bit, drawn by the same
generator; outputs differ by rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray
from leakscope.recipe import Option

Floats = npt.NDArray[np.float32]

ACTIVATIONS = ("relu", "tanh")
_MLP_OPTIONS: Mapping[str, Option] = {
    "width": 128,
    "depth": 1,
    "activation": "relu",
    "dropout": 0.0,
    "norm": "none",
}
_MANTISSA_BITS = 24  # of a float32: as many bits of a draw become a uniform number


class Perceptron(NamedTuple):
    """Linear layers with one activation between them.

    Attributes:
        sizes: numbers of inputs and of the units of each layer.
        activation: between layers, of `ACTIVATIONS`.
    """

    sizes: tuple[int, ...]
    activation: str = "relu"

    @property
    def n_parameters(self) -> int:
        """Weights and biases."""
        return sum(n_out * (n_in + 1) for n_in, n_out in pairwise(self.sizes))

    @property
    def sha256(self) -> str:
        """Of its structure and shapes."""
        return hashlib.sha256(f"perceptron {self.sizes} {self.activation}".encode()).hexdigest()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of its parameters, as torch has them."""
        shapes = dict[str, tuple[int, ...]]()
        for level, (n_in, n_out) in enumerate(pairwise(self.sizes)):
            shapes[f"{2 * level + 1}.weight"] = n_out, n_in
            shapes[f"{2 * level + 1}.bias"] = (n_out,)
        return shapes

    def initial(self, seed: int) -> list[Floats]:
        """Weights and biases in turn, as torch draws them from this seed."""
        rng = np.random.RandomState(seed % 2**32)  # Mersenne twister, seeded as torch's
        return [
            _uniform(rng, shape, bound)
            for shape, bound in zip(self.shapes.values(), self._bounds, strict=True)
        ]

    @property
    def _bounds(self) -> list[float]:
        """Largest first weight and bias of each layer; equal but for the rounding of torch's formulas."""
        gain = sqrt(2.0 / (1 + sqrt(5) ** 2))
        return [b for n_in in self.sizes[:-1] for b in (sqrt(3.0) * (gain / sqrt(n_in)), 1 / sqrt(n_in))]

    def outputs(self, parameters: Sequence[Floats], x: AnyArray) -> Floats:
        """Of records (records, inputs); float32 (records, outputs)."""
        below = x
        for level, (weight, bias) in enumerate(zip(parameters[::2], parameters[1::2], strict=True)):
            below = below @ weight.T
            below += bias
            if level < len(self.sizes) - 2:
                _activate(self.activation, below)
        return below


def perceptron_of(
    net: str, options: Mapping[str, Option], input_shape: tuple[int, ...], n_outputs: int
) -> Perceptron | None:
    """The shipped perceptron of this name; None for any other network, and for options that do not fit."""
    n_inputs = prod(input_shape)
    if net == "linear":
        return None if options else Perceptron((n_inputs, n_outputs))
    if net != "mlp" or not set(options) <= set(_MLP_OPTIONS):
        return None
    given = {**_MLP_OPTIONS, **options}
    width, depth, activation = given["width"], given["depth"], given["activation"]
    is_plain = not given["dropout"] and given["norm"] == "none"
    if not isinstance(width, int) or not isinstance(depth, int) or min(width, depth) < 1 or not is_plain:
        return None
    if activation not in ACTIVATIONS:
        return None
    return Perceptron((n_inputs, *[width] * depth, n_outputs), str(activation))


def _uniform(rng: np.random.RandomState, shape: tuple[int, ...], bound: float) -> Floats:
    """Between -bound and bound; `x * width + low` is rounded once, as torch's is."""
    drawn = rng.randint(0, 2**32, size=prod(shape), dtype=np.uint32) & np.uint32(2**_MANTISSA_BITS - 1)
    low, high = np.float32(-bound), np.float32(bound)
    unit = drawn.astype(np.float64) / 2**_MANTISSA_BITS
    values: Floats = (unit * np.float64(high - low) + np.float64(low)).astype(np.float32)
    return values.reshape(shape)


def _activate(activation: str, values: Floats) -> None:
    if activation == "relu":
        np.maximum(values, 0, out=values)
    else:
        np.tanh(values, out=values)
