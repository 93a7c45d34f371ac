"""The target network as a user's own module, under the names that leakscope's `mlp` gives its layers."""

from __future__ import annotations

from torch import nn


class Net(nn.Sequential):
    """`depth` hidden layers of `width` units with ReLU."""

    def __init__(self, n_inputs: int, n_classes: int, width: int, depth: int) -> None:
        layers: list[nn.Module] = [nn.Flatten()]
        for _ in range(depth):
            layers += [nn.Linear(n_inputs, width), nn.ReLU()]
            n_inputs = width
        super().__init__(*layers, nn.Linear(n_inputs, n_classes))
