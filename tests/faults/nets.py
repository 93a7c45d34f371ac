"""Networks of a user's own that are awkward to resume."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional


class Noisy(nn.Module):
    """Draws from torch's global generator, so it can only be trained alone; counts its passes if asked to."""

    def __init__(self, n_inputs: int, n_classes: int, width: int, counts: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(n_inputs, width), nn.Linear(width, n_classes)
        self.middle, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width)
        self.layers = (self.first, self.middle)  # named twice: this is no state of its own
        self.counts, self.n_passes = counts, 0

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.dropout(layer(x.flatten(1)).relu(), 0.3, self.training)
        if self.training and self.counts:
            self.n_passes += 1
            x = x * (1 + 0.1 * (self.n_passes % 3))
        outputs: Tensor = self.last(self.norm(x + 0.1 * torch.randn_like(x) if self.training else x))
        return outputs


def noisy(input_shape: tuple[int, ...], n_classes: int, width: int = 400, counts: bool = False) -> nn.Module:
    return Noisy(prod(input_shape), n_classes, width, counts)
