"""A linear classifier (multinomial logistic regression)."""

from __future__ import annotations

from math import prod

from torch import nn


def linear(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """One linear layer on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), n_classes))
