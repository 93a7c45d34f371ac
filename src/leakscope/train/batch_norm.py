"""Batch norm whose statistics are two plain sums, for networks that are compiled for a CUDA device.

Compiled code computes the variance of `nn.BatchNorm2d` by Welford's update, a division for each number, which
takes longer than reading it. Here the mean and the mean square are taken of the distance from the running
mean: two sums in one pass. Being near the mean, they lose no digits that matter.

The rectifier that follows is part of the same function. Its backward pass finds out where it was open from
the input of the norm, which it reads anyway, and not from its own output.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_OVER_ROWS = (0, 2, 3)


class SummedBatchNorm2d(nn.BatchNorm2d):
    """`nn.BatchNorm2d` with running statistics, the same function to rounding."""

    def forward(self, x: Tensor) -> Tensor:
        """(rows, channels, height, width) -> the same."""
        return self._normed(x, False) if self.training else super().forward(x)

    def rectified(self, x: Tensor) -> Tensor:
        """`relu(forward(x))`."""
        return self._normed(x, True) if self.training else functional.relu(super().forward(x))

    def _normed(self, x: Tensor, is_rectified: bool) -> Tensor:
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        centre = self.running_mean.clone()
        made = _Normed.apply if is_rectified else _normed
        outputs, mean, variance = made(x, self.weight, self.bias, centre, self.eps, is_rectified)
        n = x.numel() // x.shape[1]
        with torch.no_grad():
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(variance.detach() * (n / (n - 1)), self.momentum)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        return outputs


def _normed(
    x: Tensor, weight: Tensor, bias: Tensor, centre: Tensor, eps: float, is_rectified: bool
) -> tuple[Tensor, Tensor, Tensor]:
    distance = x.float() - _wide(centre)
    offset = distance.mean(_OVER_ROWS)
    variance = (distance.square().mean(_OVER_ROWS) - offset.square()).clamp(min=0)
    outputs = (distance - _wide(offset)) * _wide((variance + eps).rsqrt() * weight) + _wide(bias)
    return (outputs.relu() if is_rectified else outputs).to(x.dtype), centre + offset, variance


class _Normed(torch.autograd.Function):
    """Outputs, mean and variance; only the outputs have a gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, centre: Tensor, eps: float, is_rectified: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        distance = x.float() - _wide(centre)
        offset = distance.mean(_OVER_ROWS)
        variance = (distance.square().mean(_OVER_ROWS) - offset.square()).clamp(min=0)
        mean, scale = centre + offset, (variance + eps).rsqrt()
        outputs = (x.float() - _wide(mean)) * _wide(scale * weight) + _wide(bias)
        if is_rectified:
            outputs = outputs.relu()
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.is_rectified = is_rectified
        ctx.mark_non_differentiable(mean, variance)
        return outputs.to(x.dtype), mean, variance

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _of_mean: Tensor, _of_variance: Tensor) -> tuple[Any, ...]:
        x, weight, bias, mean, scale = ctx.saved_tensors
        standard = (x.float() - _wide(mean)) * _wide(scale)
        slope = slope.float()
        if ctx.is_rectified:
            slope = torch.where(standard * _wide(weight) + _wide(bias) > 0, slope, 0.0)
        of_bias = slope.sum(_OVER_ROWS)
        of_weight = (slope * standard).sum(_OVER_ROWS)
        n = x.numel() // x.shape[1]
        inner = slope - _wide(of_bias / n) - standard * _wide(of_weight / n)
        return (inner * _wide(scale * weight)).to(x.dtype), of_weight, of_bias, None, None, None


def sum_statistics(net: nn.Module) -> None:
    """Turns the plain batch norms of a network into ones with sums."""
    for module in net.modules():
        is_plain = type(module) is nn.BatchNorm2d and module.affine and module.track_running_stats
        if is_plain and module.momentum is not None:
            module.__class__ = SummedBatchNorm2d


def _wide(of_channels: Tensor) -> Tensor:
    return of_channels[:, None, None]
