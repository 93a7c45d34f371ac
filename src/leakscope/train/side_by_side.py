"""Large networks by plain autograd: several on one CUDA device, each on a stream of its own, or one alone.

One model with a batch of 256 leaves most of a large chip idle; stacking convolutions by vmap turns them
into grouped ones, which are slow. So every network runs its own kernels, several networks at once. The
parameters lie in stacked tensors nonetheless, of which each network holds a slice: one optimizer step moves
all of them, and the loop treats them as any other block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from leakscope.train.clipping import Clip, ClippedSum, Weights
from leakscope.train.losses import Objective

Loss = Callable[[nn.Module, Tensor, Tensor, Tensor, Objective], Tensor]


def weighted_loss(net: nn.Module, x: Tensor, y: Tensor, row_weight: Tensor, objective: Objective) -> Tensor:
    """The training loss of one network on one batch."""
    return objective.loss(net(x), y, row_weight)


@cache
def compiled_loss() -> Loss:
    """`weighted_loss`, compiled: for one network, it serves all of its structure (parameters are inputs)."""
    compiled: Loss = torch.compile(weighted_loss, dynamic=False)  # here, for its import takes seconds
    return compiled


class SideBySide:
    """A block of models of one architecture; implements the `Stack` protocol of `steps.py`."""

    channels_last = True  # as fast convolutions want images in memory

    def __init__(
        self,
        nets: list[nn.Module],
        objective: Objective,
        device: torch.device,
        loss: Loss = weighted_loss,
    ) -> None:
        self.nets = [net.to(device) for net in nets]
        self.objective, self._loss = objective, loss
        self.parameters = [_shared(own) for own in zip(*map(_trained, nets), strict=True)]
        self.buffers = [_shared(own) for own in zip(*(list(net.buffers()) for net in nets), strict=True)]
        self._own = [_trained(net) for net in nets]
        self._names = [name for name, p in nets[0].named_parameters() if p.requires_grad]
        self._clipped: ClippedSum | None = None
        has_streams = device.type == "cuda" and len(nets) > 1
        self._streams = [new_stream(device) for _ in nets] if has_streams else []

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the weighted loss, in the order of `parameters`."""
        return self._by_lanes(lambda m: self._lane_gradients(m, x[m], y[m], row_weight[m]))

    def clipped_gradients(self, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip) -> list[Tensor]:
        """Weighted sum of the rows' gradients, each scaled down to norm `clip`."""
        if self._clipped is None:
            self._clipped = ClippedSum(self._names, self.objective)
            self.nets[0].train()
            self._clipped.prepare(self.nets[0], self._weights(0), x[0, :2], y[0, :2])
        clipped = self._clipped

        def of_lane(m: int) -> list[Tensor]:
            rows = self._laid_out(x[m].flatten(0, 1)).reshape(x[m].shape)
            own_clip = clip[m] if isinstance(clip, Tensor) else clip
            return clipped(self.nets[m].train(), self._weights(m), rows, y[m], row_weight[m], own_clip)

        return self._by_lanes(of_lane)

    def in_own_shapes(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors like `parameters`, in the shapes of the networks' own parameters."""
        return tensors

    def outputs(self, x: Tensor) -> Tensor:
        """The networks' outputs; x (models, rows, ...) -> (models, rows, outputs)."""
        with torch.no_grad():
            return torch.stack([net.eval()(self._laid_out(x[m])) for m, net in enumerate(self.nets)])

    def state(self) -> dict[str, Tensor]:
        """Parameters under the module's own names and shapes, with a leading models axis."""
        named = [dict(net.named_parameters()) for net in self.nets]
        return {name: torch.stack([own[name].detach() for own in named]) for name in named[0]}

    def _weights(self, lane: int) -> Weights:
        named = {name: p.detach() for name, p in self.nets[lane].named_parameters()}
        trained = [named.pop(name) for name in self._names]
        return Weights(trained, named, dict(self.nets[lane].named_buffers()))

    def _by_lanes(self, of_lane: Callable[[int], list[Tensor]]) -> list[Tensor]:
        """The lanes' gradients together, each lane on its stream."""
        if not self._streams:
            return self._stacked([of_lane(lane) for lane in range(len(self.nets))])
        device = self.parameters[0].device
        main = torch.cuda.current_stream(device)
        gradients = []
        for lane, stream in enumerate(self._streams):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                gradients.append(of_lane(lane))
        for stream in self._streams:
            main.wait_stream(stream)
        return self._stacked(gradients)

    def _lane_gradients(self, lane: int, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        net = self.nets[lane].train()
        loss = self._loss(net, self._laid_out(x), y, row_weight, self.objective)
        return list(torch.autograd.grad(loss, self._own[lane]))

    def _stacked(self, gradients: list[list[Tensor]]) -> list[Tensor]:
        """One tensor per parameter, in its layout: the optimizer's kernels go by memory, not by strides."""
        together = (g[0][None] if len(g) == 1 else torch.stack(g) for g in zip(*gradients, strict=True))
        return [
            g if g.stride() == p.stride() else torch.empty_like(p).copy_(g)
            for p, g in zip(self.parameters, together, strict=True)
        ]

    def _laid_out(self, x: Tensor) -> Tensor:
        is_moved = self.channels_last and x.ndim == 4
        return x.contiguous(memory_format=torch.channels_last) if is_moved else x


class SerialModel(SideBySide):
    """A block of exactly one model, also of a module that cannot be stacked; records lie as they are."""

    channels_last = False


def new_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream of its own on the device."""
    made: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return made


def _trained(net: nn.Module) -> list[nn.Parameter]:
    return [p for p in net.parameters() if p.requires_grad]


def _shared(own: tuple[Tensor, ...]) -> Tensor:
    """One tensor (models, ...) that holds all of them; each becomes a slice of it."""
    if len(own) == 1:
        return own[0].detach()[None]
    together = torch.stack([t.detach() for t in own])
    for tensor, part in zip(own, together, strict=True):
        tensor.data = part
    return together
