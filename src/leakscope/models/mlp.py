"""A multi-layer perceptron."""

from __future__ import annotations

from math import prod

from torch import nn

from leakscope.errors import InputError

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


def mlp(
    input_shape: tuple[int, ...],
    n_classes: int,
    width: int = 128,
    depth: int = 1,
    activation: str = "relu",
    dropout: float = 0.0,
    batch_norm: bool = False,
) -> nn.Module:
    """`depth` hidden layers of `width` units on the flattened input."""
    if width < 1 or depth < 1:
        raise InputError(f"mlp: width={width}, depth={depth}: both must be at least 1")
    if activation not in _ACTIVATIONS:
        raise InputError(f"mlp: activation={activation!r}: choose one of {', '.join(_ACTIVATIONS)}")
    layers: list[nn.Module] = [nn.Flatten()]
    n_in = prod(input_shape)
    for _ in range(depth):
        layers.append(nn.Linear(n_in, width))
        if batch_norm:
            layers.append(nn.BatchNorm1d(width))
        layers.append(_ACTIVATIONS[activation]())
        if dropout:
            layers.append(nn.Dropout(dropout))
        n_in = width
    return nn.Sequential(*layers, nn.Linear(n_in, n_classes))
