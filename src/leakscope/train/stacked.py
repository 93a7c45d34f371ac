"""Many models of one architecture at once, by `torch.func.vmap`.

Any module that `torch.func` can stack: batch norm has statistics per model, and dropout is seeded
per model (`dropout.py`).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from leakscope.errors import first_line
from leakscope.train.clipping import Clip, ClippedSum, Weights
from leakscope.train.losses import PLAIN, Objective


class VmapStack:
    """A block of models of one architecture; implements the `Stack` protocol of `steps.py`."""

    def __init__(self, nets: list[nn.Module], objective: Objective, device: torch.device) -> None:
        self._net = nets[0]
        parameters, buffers = stack_module_state(nets)
        stacked = {name: p.detach().to(device) for name, p in parameters.items()}
        self._names = [name for name, p in parameters.items() if p.requires_grad]
        self.parameters = [stacked[name] for name in self._names]
        self._frozen = {name: p for name, p in stacked.items() if name not in self._names}
        self._buffers = {name: b.detach().to(device) for name, b in buffers.items()}
        self.buffers = list(self._buffers.values())
        self.objective = objective
        self._net.to("meta")  # only its structure is used from here on
        self.nets = [self._net]
        self._clipped: ClippedSum | None = None

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the weighted loss, in the order of `parameters`."""
        self._net.train()
        state = (self.parameters, self._frozen, self._buffers)
        return list(vmap(grad(self._loss))(*state, x, y, row_weight))

    def clipped_gradients(self, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip) -> list[Tensor]:
        """Weighted sum of the rows' gradients, each scaled down to norm `clip`."""
        self._net.train()
        weights = Weights(self.parameters, self._frozen, self._buffers)
        if self._clipped is None:
            self._clipped = ClippedSum(self._names, self.objective)
            self._clipped.prepare(self._net, weights.of_model(0), x[0, :2], y[0, :2])
        clipped, axis = partial(self._clipped, self._net), 0 if isinstance(clip, Tensor) else None
        return list(vmap(clipped, (0, 0, 0, 0, axis))(weights, x, y, row_weight, clip))

    def in_own_shapes(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors like `parameters`, in the shapes of the networks' own parameters."""
        return tensors

    def outputs(self, x: Tensor) -> Tensor:
        """The networks' outputs; x (models, rows, ...) -> (models, rows, outputs)."""
        self._net.eval()
        with torch.no_grad():
            return vmap(self._forward)(self.parameters, self._frozen, self._buffers, x)

    def state(self) -> dict[str, Tensor]:
        """Parameters under the module's own names and shapes, with a leading models axis."""
        return {**dict(zip(self._names, self.parameters, strict=True)), **self._frozen}

    def _forward(
        self, parameters: list[Tensor], frozen: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor
    ) -> Tensor:
        named = dict(zip(self._names, parameters, strict=True))
        outputs: Tensor = functional_call(self._net, (named, frozen, buffers), (x,))
        return outputs

    def _loss(
        self,
        parameters: list[Tensor],
        frozen: dict[str, Tensor],
        buffers: dict[str, Tensor],
        x: Tensor,
        y: Tensor,
        row_weight: Tensor,
    ) -> Tensor:
        outputs = self._forward(parameters, frozen, buffers, x)
        return self.objective.loss(outputs, y, row_weight)


def why_not_stackable(nets: list[nn.Module], x: Tensor, y: Tensor, clipped: bool) -> str | None:
    """None when two such nets train stacked on the two rows of x; else torch's reason."""
    try:
        stack = VmapStack(nets, PLAIN, x.device)
        pair, labels = torch.stack([x, x]), torch.stack([y, y])
        weights = torch.full_like(labels, 0.5, dtype=torch.float32)
        if clipped:
            stack.clipped_gradients(pair[:, :, None], labels, weights, 1.0)
        else:
            stack.gradients(pair, labels, weights)
        stack.outputs(pair)
    except (RuntimeError, NotImplementedError) as error:
        return first_line(error)
    return None
