"""Training in bfloat16 with float32 weights and float32 outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def train_in_bfloat16(net: nn.Module, device_type: str) -> None:
    """Makes `net` compute in bfloat16 during training, and in float32 in evaluation.

    Attacks compare outputs far out in the tails, where bfloat16's three digits would tie them.
    """
    forward = net.forward

    def mixed(x: Tensor) -> Tensor:
        with torch.autocast(device_type, torch.bfloat16, enabled=net.training):
            outputs: Tensor = forward(x)
        return outputs.float()

    net.forward = mixed
