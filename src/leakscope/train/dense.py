"""Many perceptrons at once by hand-written batched matrix products.

Forward and backward of Linear/ReLU/Tanh stacks need a dozen kernels a step. Written out, with
preallocated results and no autograd graph, they run several times faster than vmap over autograd,
whose overhead is larger than the arithmetic when models are small.

Two layout choices matter on CPUs, where products with a short last axis are slow: activations are
(models, units, rows), and each weight is stored with its longer side last, so that its gradient
comes out that way round.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakscope.train.clipping import Clip, clip_factor
from leakscope.train.losses import Objective

_ACTIVATIONS = (nn.ReLU, nn.Tanh)
_MOST_WORKSPACES = 16  # batches of DP-SGD vary in size


def dense_layers(net: nn.Module) -> list[tuple[nn.Linear, type[nn.Module] | None]] | None:
    """The (linear, activation) pairs of a plain perceptron; None when the net is something else.

    Something else is also a subclass with its own forward, a layer used twice and a frozen weight.
    """
    if type(net) is not nn.Sequential or not all(p.requires_grad for p in net.parameters()):
        return None
    modules = [m for m in net if not isinstance(m, nn.Flatten)]
    pairs: list[tuple[nn.Linear, type[nn.Module] | None]] = []
    for i in range(0, len(modules), 2):
        linear, activation = modules[i], modules[i + 1] if i + 1 < len(modules) else None
        is_last = i + 1 >= len(modules)
        if type(linear) is not nn.Linear or linear.bias is None:
            return None
        if not is_last and type(activation) not in _ACTIVATIONS:
            return None
        pairs.append((linear, None if activation is None else type(activation)))
    is_whole = bool(pairs) and pairs[-1][1] is None and len({linear for linear, _ in pairs}) == len(pairs)
    return pairs if is_whole else None


class DenseStack:
    """A block of perceptrons of one shape; implements the `Stack` protocol of `steps.py`.

    Attributes:
        sizes: numbers of inputs and of the units of each layer.
        activations: after each layer; None: none.
        is_tall: whether a layer has more units than inputs; its weights are stored (models, inputs, units),
            else (models, units, inputs).
    """

    def __init__(self, nets: list[nn.Module], objective: Objective, device: torch.device) -> None:
        layers = [dense_layers(net) for net in nets]
        assert all(pairs is not None for pairs in layers), "DenseStack was given another kind of net"
        stacks = [pairs for pairs in layers if pairs is not None]
        self.activations = [activation for _, activation in stacks[0]]
        self.sizes = [stacks[0][0][0].in_features, *(linear.out_features for linear, _ in stacks[0])]
        self._names = [name for name, _ in nets[0].named_parameters()]
        self.objective = objective
        self._weights: list[Tensor] = []  # stored (models, short side, long side)
        self._biases: list[Tensor] = []  # (models, units, 1)
        self.is_tall = list[bool]()
        for level in range(len(stacks[0])):
            weight = torch.stack([pairs[level][0].weight.detach() for pairs in stacks]).to(device)
            bias = torch.stack([pairs[level][0].bias.detach() for pairs in stacks]).to(device)
            self.is_tall.append(weight.shape[1] > weight.shape[2])
            self._weights.append(weight.transpose(1, 2).contiguous() if self.is_tall[-1] else weight)
            self._biases.append(bias[:, :, None].clone())
        # As (models, units, inputs) and the other way round, sharing memory with what is stored.
        self._maps = [w.transpose(1, 2) if tall else w
                      for w, tall in zip(self._weights, self.is_tall, strict=True)]  # fmt: skip
        self._maps_t = [m.transpose(1, 2) for m in self._maps]
        self.parameters = [t for pair in zip(self._weights, self._biases, strict=True) for t in pair]
        self.buffers: list[Tensor] = []
        self.nets: list[nn.Module] = []  # its own code runs, not theirs
        self._gradients = [torch.empty_like(p) for p in self.parameters]
        self._work: dict[int, _Workspace] = {}  # by the number of rows

    def gradients(self, x: Tensor, y: Tensor, row_weight: Tensor) -> list[Tensor]:
        """Gradients of the weighted loss, in the order of `parameters`; overwritten by the next call."""
        x = x.flatten(2).transpose(1, 2)  # (models, inputs, rows)
        work = self._passed(x)
        slope = self.objective.output_gradient_(work.outputs[-1], y, row_weight)
        for level in range(len(work.outputs) - 1, 0, -1):
            self._layer_gradient(level, slope, work.outputs[level - 1], work.outputs_t[level - 1])
            slope = torch.bmm(self._maps_t[level], slope, out=work.slopes[level - 1])
            _differentiate_(self.activations[level - 1], slope, work.outputs[level - 1])
        self._layer_gradient(0, slope, x, x.transpose(1, 2))
        return self._gradients

    def clipped_gradients(self, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip) -> list[Tensor]:
        """Weighted sum of the rows' gradients, each scaled down to norm `clip`; overwritten by the next call.

        A row's gradient in a layer is the product of slopes and inputs, so its norm is that of both: it is
        known without the gradient, and scaling the slopes scales the gradient.
        """
        assert x.shape[2] == 1, "several views of a row are another trainer's"
        x = x.flatten(2).transpose(1, 2)
        work = self._passed(x)
        below = [x, *work.outputs[:-1]]
        slopes = [*work.slopes, self.objective.output_gradient_(work.outputs[-1], y, work.ones)]
        for level in range(len(slopes) - 1, 0, -1):
            torch.bmm(self._maps_t[level], slopes[level], out=slopes[level - 1])
            _differentiate_(self.activations[level - 1], slopes[level - 1], below[level])
        squares = work.squared_norms(below, slopes)
        factor = (row_weight * clip_factor(squares, clip))[:, None]
        for level, (inputs, slope) in enumerate(zip(below, slopes, strict=True)):
            self._layer_gradient(level, slope.mul_(factor), inputs, inputs.transpose(1, 2))
        return self._gradients

    def in_own_shapes(self, tensors: list[Tensor]) -> list[Tensor]:
        """Views of tensors like `parameters`, in the shapes of the networks' own parameters."""
        pairs = zip(tensors[::2], tensors[1::2], self.is_tall, strict=True)
        return [t for w, b, tall in pairs for t in (w.transpose(1, 2) if tall else w, b[:, :, 0])]

    def outputs(self, x: Tensor) -> Tensor:
        """The networks' outputs; x (models, rows, ...) -> (models, rows, outputs)."""
        a = x.flatten(2).transpose(1, 2)
        for bias, weight, activation in zip(self._biases, self._maps, self.activations, strict=True):
            a = _activate_(activation, torch.baddbmm(bias, weight, a))
        return a.transpose(1, 2)

    def state(self) -> dict[str, Tensor]:
        """Parameters under the module's own names and shapes, with a leading models axis."""
        return dict(zip(self._names, self.in_own_shapes(self.parameters), strict=True))

    def _passed(self, x: Tensor) -> _Workspace:
        """The layers' outputs for x (models, inputs, rows)."""
        rows = x.shape[2]
        if rows not in self._work:
            if len(self._work) == _MOST_WORKSPACES:
                self._work.clear()
            self._work[rows] = _Workspace(self._maps, rows)
        work, below = self._work[rows], x
        for bias, weight, activation, out in zip(
            self._biases, self._maps, self.activations, work.outputs, strict=True
        ):
            torch.baddbmm(bias, weight, below, out=out)
            below = _activate_(activation, out)
        return work

    def _layer_gradient(self, level: int, slope: Tensor, below: Tensor, below_t: Tensor) -> None:
        weight, bias = self._gradients[2 * level], self._gradients[2 * level + 1]
        if self.is_tall[level]:
            torch.bmm(below, slope.transpose(1, 2), out=weight)
        else:
            torch.bmm(slope, below_t, out=weight)
        torch.sum(slope, 2, keepdim=True, out=bias)


class _Workspace:
    """Where one step's activations and slopes go: (models, units, rows), the same memory every step."""

    def __init__(self, maps: list[Tensor], rows: int) -> None:
        self.outputs = [m.new_empty(m.shape[0], m.shape[1], rows) for m in maps]
        self.outputs_t = [out.transpose(1, 2) for out in self.outputs]
        self.slopes = [torch.empty_like(out) for out in self.outputs[:-1]]
        self.ones = self.outputs[0].new_ones(len(maps[0]), rows)
        self._scratch = torch.empty_like(max(self.outputs, key=Tensor.numel)).flatten()

    def squared_norms(self, below: list[Tensor], slopes: list[Tensor]) -> Tensor:
        """Of the rows' gradients in all weights and biases, from the layers' inputs and slopes.

        (models, rows).
        """
        total = torch.zeros_like(self.ones)
        for inputs, slope in zip(below, slopes, strict=True):
            total.addcmul_(self._squares(inputs).add_(1), self._squares(slope))
        return total

    def _squares(self, t: Tensor) -> Tensor:
        """Squared norms of the columns; fresh memory for the squares would take longer than they do."""
        if t.numel() > self._scratch.numel() or not t.is_contiguous():  # a batch: rows come before inputs
            norms: Tensor = torch.linalg.vector_norm(t, dim=1)
            return norms.square_()
        return torch.mul(t, t, out=self._scratch[: t.numel()].view(t.shape)).sum(1)


def _activate_(activation: type[nn.Module] | None, a: Tensor) -> Tensor:
    if activation is nn.ReLU:
        return a.relu_()
    return a.tanh_() if activation is nn.Tanh else a


def _differentiate_(activation: type[nn.Module] | None, slope: Tensor, a: Tensor) -> None:
    """Multiplies `slope` by the activation's derivative at output `a`."""
    if activation is nn.ReLU:
        torch.ops.aten.threshold_backward.grad_input(slope, a, 0, grad_input=slope)
    else:
        torch.ops.aten.tanh_backward.grad_input(slope, a, grad_input=slope)
