"""Dropout whose masks depend on the model's own key only, not on torch's global generator.

Under vmap the global generator would give a model other masks in another block. Here a mask is a
hash of (key, position), and the key, a buffer that is stacked like any other, moves on each pass.
"""

from __future__ import annotations

import copy
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from leakscope.train.hashing import WEYL, mixed, shifted

PASS_KEY_STRIDE = 2685821657736338717  # another odd number: by WEYL, a pass would be the last one shifted
ROW_KEY_STRIDE = 0x14057B7EF767814F  # from one row's key to the next, where rows are passed one by one
LAYER_KEY_STRIDE = 0x5851F42D4C957F2D  # from one layer's key to the next
_N_SHARED_AXES: dict[type[nn.Module], int] = {
    nn.Dropout: 0,
    nn.Dropout1d: 1,
    nn.Dropout2d: 2,
    nn.Dropout3d: 3,
}


class SeededDropout(nn.Module):
    """`nn.Dropout` (or its 1d to 3d forms) with reproducible per-model masks."""

    key: Tensor

    def __init__(self, p: float, n_shared_axes: int, key: int) -> None:
        super().__init__()
        self.p = p
        self.n_shared_axes = n_shared_axes
        self.register_buffer("key", torch.tensor(key, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Drops entries (or whole channels) with probability p while training."""
        if not self.training or self.p == 0:
            return x
        own_axes = x.ndim - self.n_shared_axes
        shape = (*x.shape[:own_axes], *(1 for _ in range(self.n_shared_axes)))
        mask = _uniform(self.key, shape) >= self.p
        self.key.add_(PASS_KEY_STRIDE)
        return x * mask / (1 - self.p) if self.p < 1 else torch.zeros_like(x)


def seed_dropout(net: nn.Module, key: int) -> None:
    """Replaces every dropout layer of `net` by a seeded one; each layer gets its own stream."""
    layer = 0
    for parent in list(net.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.modules.dropout._DropoutNd) and type(child) in _N_SHARED_AXES:
                layer += 1
                own_key = (key + layer * LAYER_KEY_STRIDE) % 2**63
                setattr(parent, name, SeededDropout(child.p, _N_SHARED_AXES[type(child)], own_key))


def dropout_passes(net: nn.Module, x: Tensor, n_passes: int) -> npt.NDArray[np.float32] | None:
    """Logits of passes with dropout enabled and all else as in evaluation (Gal and Ghahramani 2016).

    float32 (passes, records, classes); None where the network has no dropout, so that all passes are equal.
    """
    dropping = copy.deepcopy(net).eval()
    layers = [module for module in dropping.modules() if isinstance(module, SeededDropout) and module.p > 0]
    if not layers:
        return None
    for index, layer in enumerate(layers):
        layer.train()
        layer.key.fill_((index + 1) * LAYER_KEY_STRIDE % 2**63)
    with torch.no_grad():
        return np.stack([dropping(x).float().cpu().numpy() for _ in range(n_passes)])


def _uniform(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Uniform numbers in [0, 1) with 24 bits, a hash of key and position."""
    bits = mixed(torch.arange(prod(shape), device=key.device) * WEYL + key)
    return (shifted(bits, 40).to(torch.float32) * 2.0**-24).reshape(shape)
