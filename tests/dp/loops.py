"""Small training loops with DP-SGD that tests put canaries into."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

FEATURES, CLASSES = 10, 4


def small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def records(number: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(number, FEATURES), torch.randint(0, CLASSES, (number,))


def private_gradients(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, noise: float, clip: float = 1.0
) -> dict[str, torch.Tensor]:
    """Clipped gradients of single records by torch.func, summed, with noise."""

    def loss(
        parameters: dict[str, torch.Tensor], features: torch.Tensor, label: torch.Tensor
    ) -> torch.Tensor:
        output = torch.func.functional_call(model, parameters, (features.unsqueeze(0),))
        return functional.cross_entropy(output, label.unsqueeze(0))

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    samples = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    norms = torch.stack([sample.flatten(1).norm(dim=1) for sample in samples.values()]).norm(dim=0)
    factors = (clip / norms.clamp(min=1e-12)).clamp(max=1.0)
    return {
        name: torch.einsum("i,i...->...", factors, sample) + noise * clip * torch.randn_like(parameters[name])
        for name, sample in samples.items()
    }
