"""Sharpness-aware minimization (Foret et al. 2021) around any optimizer.

The step is taken with the gradient at the worst point of a small ball around the parameters, to
first order: `w + rho g / ||g||`, the norm over all parameters of one model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

_SMALLEST_NORM = 1e-12  # a model without gradient stays where it is


def sharpness_aware(
    gradients: Callable[[], list[Tensor]], parameters: list[Tensor], buffers: Iterable[Tensor], rho: float
) -> list[Tensor]:
    """Gradients at the perturbed parameters; parameters are as before, buffers as after one pass.

    Args:
        gradients: computes them at the current parameters, in their order.
        parameters: every tensor's first axis is the model; changed in place and put back.
        buffers: batch-norm statistics and the like: the perturbed pass leaves no trace in them.
        rho: radius of the ball; 0 gives the ordinary gradients.
    """
    here = gradients()
    if rho == 0:
        return here
    squares = torch.stack([g.flatten(1).square().sum(1) for g in here])  # (tensors, models)
    scale = rho / squares.sum(0).sqrt().clamp(min=_SMALLEST_NORM)
    before, statistics = [p.clone() for p in parameters], [(b, b.clone()) for b in buffers]
    for p, g in zip(parameters, here, strict=True):
        p.add_(g * scale.view(-1, *(1 for _ in g.shape[1:])))
    there = gradients()
    for p, value in zip(parameters, before, strict=True):
        p.copy_(value)
    for buffer, value in statistics:
        buffer.copy_(value)
    return there
