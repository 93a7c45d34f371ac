"""Passes with dropout left on: one network as a stand-in for many (Gal and Ghahramani 2016).

`hardness.uncertainty.uncertainty` takes the passes as it takes an ensemble's members.
"""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from leakscope.errors import InputError
from leakscope.train.dropout import SeededDropout, seed_dropout

_ROWS_AT_ONCE = 4096
_STRIDE = 0x5851F42D4C957F2D  # from one layer's key to the next, as in `seed_dropout`


def mc_dropout_probabilities(net: nn.Module, x: Tensor, n_passes: int, seed: int) -> npt.NDArray[np.float32]:
    """Class probabilities of `n_passes` passes, each with its own dropout masks; all else as in evaluation.

    Args:
        net: with at least one dropout layer; left as it is.
        x: float (records, ...), on the network's device.
        n_passes: passes per record.
        seed: seed of the masks.

    Returns:
        float32 (passes, records, classes).
    """
    if n_passes < 1:
        raise InputError(f"n_passes={n_passes}: must be at least 1")
    dropping = _dropping(net, seed)
    with torch.no_grad():
        parts = [
            torch.stack([dropping(rows).softmax(-1) for _ in range(n_passes)])
            for rows in torch.split(x, _ROWS_AT_ONCE)
        ]
    passes: npt.NDArray[np.float32] = torch.cat(parts, dim=1).cpu().numpy()
    return passes


def _dropping(net: nn.Module, seed: int) -> nn.Module:
    """A copy in evaluation mode but for its dropout layers, whose masks come from `seed`."""
    dropping = copy.deepcopy(net).eval()
    seed_dropout(dropping, seed)
    layers = [module for module in dropping.modules() if isinstance(module, SeededDropout)]
    if not any(layer.p > 0 for layer in layers):
        raise InputError(
            f"{type(net).__name__} has no dropout layer, so all its passes are equal; add dropout to it, "
            "or use an ensemble"
        )
    for index, layer in enumerate(layers):
        layer.train()
        layer.key.fill_((seed + (index + 1) * _STRIDE) % 2**63)
    return dropping
