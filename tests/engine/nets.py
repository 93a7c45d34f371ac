"""Networks of a user's own, for tests."""

from __future__ import annotations

from math import prod

import torch
from torch import nn


def fragile(input_shape: tuple[int, ...], n_classes: int, share: float = 0.5) -> nn.Module:
    """A linear model that is born broken with probability `share`."""
    layer = nn.Linear(prod(input_shape), n_classes)
    if torch.rand(()) < share:
        nn.init.constant_(layer.weight, torch.nan)
    return nn.Sequential(nn.Flatten(), layer)
