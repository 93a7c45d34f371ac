"""The sum of single records' clipped gradients, of any network that treats the rows of a batch separately.

Networks of layers that `ghost.py` knows need no single gradient; other networks get them by `torch.func`,
some rows at a time. Which of the two is decided once, by comparing their sums on two rows with the plain
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from leakscope.disk.scratch import blocks
from leakscope.train.dropout import PASS_KEY_STRIDE, ROW_KEY_STRIDE, SeededDropout
from leakscope.train.ghost import Passed, repeated, squares_and_sum, supports, trained_names
from leakscope.train.losses import Objective

_NUMBERS_AT_ONCE = 20_000_000  # entries of single rows' gradients held together
_TOLERANCE = 0.02  # of the largest entry: bfloat16 has three digits, and a wrong way is wrong by far more

Clip = float | Tensor
"""The clipping norm of all rows, or of each row, with the axes of the rows' weights."""


class Weights(NamedTuple):
    """All tensors of one network, or of a block of them."""

    trained: list[Tensor]
    frozen: dict[str, Tensor]
    buffers: dict[str, Tensor]

    def of_model(self, model: int) -> Weights:
        """Those of one network of the block."""
        return Weights(
            [t[model] for t in self.trained],
            {name: t[model] for name, t in self.frozen.items()},
            {name: t[model] for name, t in self.buffers.items()},
        )

    def copied(self) -> Weights:
        """With copies of the buffers, which a pass may change."""
        return self._replace(buffers={name: b.clone() for name, b in self.buffers.items()})


class ClippedSum:
    """Sums of clipped gradients, in the order of `names`, the trained parameters of the network.

    Rows are (rows, views, ...): the gradients of a row's views are averaged before clipping.
    """

    def __init__(self, names: list[str], objective: Objective) -> None:
        self._names, self._objective = names, objective
        self._output_shapes: dict[str, tuple[int, ...]] | None = None  # of ghost layers, without rows

    def prepare(self, net: nn.Module, weights: Weights, x: Tensor, y: Tensor) -> None:
        """Decides how gradients are computed, on a few rows of one network."""
        self._output_shapes = self._ghost_shapes(net, weights.copied(), x)
        if self._output_shapes is None:
            return
        ones = torch.ones(len(y), device=y.device)
        try:
            by_ghost = self._by_ghost(net, weights.copied(), x, y, ones, torch.inf)
            plain = self._plain(net, weights.copied(), x, y)
            is_right = all(_are_close(*pair) for pair in zip(by_ghost, plain, strict=True))
        except (RuntimeError, KeyError):
            is_right = False
        if not is_right:  # weights that are used twice, or elsewhere than in their layer
            self._output_shapes = None

    @property
    def is_ghost(self) -> bool:
        """True where no single gradient is computed; known after `prepare`."""
        return self._output_shapes is not None

    def __call__(
        self, net: nn.Module, weights: Weights, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip
    ) -> list[Tensor]:
        """Sum over rows of `row_weight` times the row's gradient, scaled down to norm `clip`."""
        way = self._by_ghost if self.is_ghost else self._by_rows
        return way(net, weights, x, y, row_weight, clip)

    def _by_ghost(
        self, net: nn.Module, weights: Weights, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip
    ) -> list[Tensor]:
        views, flat = x.shape[1], x.flatten(0, 1)
        assert self._output_shapes is not None, "prepare() was called"
        nothing = torch.zeros((), device=x.device)
        added = {name: nothing.expand(len(flat), *shape) for name, shape in self._output_shapes.items()}

        def loss(added: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            with _tapped(net, added) as inputs:
                outputs = self._forward(net, weights, flat)
            return self._objective.row_losses(outputs, repeated(y, views)).sum() / views, inputs

        slopes, inputs = grad(loss, has_aux=True)(added)
        layers = {name: net.get_submodule(name) for name in slopes}
        parts = {
            name: squares_and_sum(layer, Passed(inputs[name], slopes[name], views))
            for name, layer in layers.items()
        }
        squares = torch.stack([square for square, _ in parts.values()]).sum(0)
        factor = row_weight * clip_factor(squares, clip)
        sums = {
            f"{layer}.{name}" if layer else name: total
            for layer, (_, summed) in parts.items()
            for name, total in summed(factor).items()
        }
        return [sums[name] for name in self._names]

    def _by_rows(
        self, net: nn.Module, weights: Weights, x: Tensor, y: Tensor, row_weight: Tensor, clip: Clip
    ) -> list[Tensor]:
        totals = [torch.zeros_like(t) for t in weights.trained]
        keys = _dropout_keys(net)
        at_once = max(1, _NUMBERS_AT_ONCE // max(1, sum(t.numel() for t in totals)))
        for some in blocks(len(x), at_once):
            rows = torch.arange(some.start, some.stop, device=x.device)
            buffers = {
                name: b + rows * ROW_KEY_STRIDE if name in keys else b for name, b in weights.buffers.items()
            }
            axes = {name: 0 if name in keys else None for name in buffers}
            single = vmap(grad(self._row_loss(net, weights)), (None, axes, 0, 0), randomness="different")
            gradients = single(weights.trained, buffers, x[some], y[some])
            squares = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0)
            own_clip = clip[some] if isinstance(clip, Tensor) else clip
            factor = row_weight[some] * clip_factor(squares, own_clip)
            totals = [t + torch.tensordot(factor, g, 1) for t, g in zip(totals, gradients, strict=True)]
        for name in keys:  # the passes above moved copies
            weights.buffers[name].add_(PASS_KEY_STRIDE)
        return totals

    def _row_loss(self, net: nn.Module, weights: Weights) -> Callable[..., Tensor]:
        def loss(trained: list[Tensor], buffers: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
            outputs = self._forward(net, Weights(trained, weights.frozen, buffers), row)
            return self._objective.row_losses(outputs, label.expand(len(row))).mean()

        return loss

    def _plain(self, net: nn.Module, weights: Weights, x: Tensor, y: Tensor) -> list[Tensor]:
        views = x.shape[1]

        def loss(trained: list[Tensor]) -> Tensor:
            outputs = self._forward(net, weights._replace(trained=trained), x.flatten(0, 1))
            return self._objective.row_losses(outputs, repeated(y, views)).sum() / views

        return list(grad(loss)(weights.trained))

    def _forward(self, net: nn.Module, weights: Weights, x: Tensor) -> Tensor:
        named = dict(zip(self._names, weights.trained, strict=True))
        outputs: Tensor = functional_call(net, (named, weights.frozen, weights.buffers), (x,))
        return outputs

    def _ghost_shapes(self, net: nn.Module, weights: Weights, x: Tensor) -> dict[str, tuple[int, ...]] | None:
        """Shapes of the layers' outputs for one row; None where a trained weight is in another layer."""
        layers = {name: module for name, module in net.named_modules() if trained_names(module)}
        if not all(map(supports, layers.values())):
            return None
        flat, shapes = x.flatten(0, 1), dict[str, tuple[int, ...]]()

        def note(name: str, outputs: Tensor) -> None:
            shapes[name] = tuple(outputs.shape)

        hooks = [
            module.register_forward_hook(lambda _, __, outputs, name=name: note(name, outputs))
            for name, module in layers.items()
        ]
        try:
            with torch.no_grad():
                self._forward(net, weights, flat)
        finally:
            for hook in hooks:
                hook.remove()
        is_by_row = set(shapes) == set(layers) and all(s[:1] == (len(flat),) for s in shapes.values())
        return {name: shape[1:] for name, shape in shapes.items()} if is_by_row else None


def clip_factor(squares: Tensor, clip: Clip) -> Tensor:
    """What scales vectors of these squared norms down to norm `clip`; 1 for shorter ones."""
    return (clip * squares.rsqrt()).clamp(max=1)


@contextmanager
def _tapped(net: nn.Module, added: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Adds to the outputs of layers, and yields where their inputs are collected."""
    inputs: dict[str, Tensor] = {}

    def tap(name: str, given: tuple[Tensor, ...], outputs: Tensor) -> Tensor:
        inputs[name] = given[0]
        return outputs + added[name].to(outputs.dtype)

    hooks = [
        net.get_submodule(name).register_forward_hook(
            lambda _, given, outputs, name=name: tap(name, given, outputs)
        )
        for name in added
    ]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def _dropout_keys(net: nn.Module) -> set[str]:
    """Names of the buffers that seed dropout."""
    return {
        f"{name}.key" if name else "key"
        for name, module in net.named_modules()
        if isinstance(module, SeededDropout)
    }


def _are_close(found: Tensor, wanted: Tensor) -> bool:
    return float((found - wanted).abs().max()) <= _TOLERANCE * float(wanted.abs().max())
