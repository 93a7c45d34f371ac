"""The network of own_net.toml: any function that returns a torch.nn.Module will do."""

import math

from torch import nn


def build(input_shape: tuple[int, ...], n_classes: int, width: int = 64) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(input_shape), width), nn.Tanh(), nn.Linear(width, n_classes)
    )
