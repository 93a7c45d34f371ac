"""One model by plain autograd: for large networks, and for modules that cannot be stacked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakscope.train.losses import row_losses


class SerialModel:
    """A block of exactly one model; implements the `Stack` protocol of `loop.py`."""

    def __init__(self, nets: list[nn.Module], label_smoothing: float, device: torch.device) -> None:
        (self._net,) = nets
        self._net.to(device)
        self._own = [p for p in self._net.parameters() if p.requires_grad]
        # Views with a models axis of one: the optimizer's writes reach the module.
        self.parameters = [p.detach()[None] for p in self._own]
        self.buffers = [b.detach()[None] for b in self._net.buffers()]
        self._label_smoothing = label_smoothing

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the weighted loss, in the order of `parameters`."""
        self._net.train()
        losses = row_losses(self._net(x[0]), y[0], self._label_smoothing)
        gradients = torch.autograd.grad((losses * row_weight[0]).sum(), self._own)
        return [_laid_out_like(p, g)[None] for p, g in zip(self._own, gradients, strict=True)]

    def outputs(self, x: Tensor) -> Tensor:
        """The network's outputs; x (1, rows, ...) -> (1, rows, outputs)."""
        self._net.eval()
        with torch.no_grad():
            outputs: Tensor = self._net(x[0])
        return outputs[None]

    def state(self) -> dict[str, Tensor]:
        """Parameters under the module's own names, with a leading models axis of one."""
        return {name: p.detach()[None] for name, p in self._net.named_parameters()}


def _laid_out_like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient in the parameter's layout: the optimizer's kernels go by memory, not by strides.

    A convolution on channels-last images gives channels-last gradients of contiguous weights.
    """
    same = gradient.stride() == parameter.stride()
    return gradient if same else torch.empty_like(parameter).copy_(gradient)
