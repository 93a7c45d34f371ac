"""Norms and sums of single records' gradients, layer by layer, from a layer's inputs and its outputs' slopes.

A layer's gradient for one record is a product of its inputs and its slopes, so its norm is known without it
(ghost clipping, Li et al. 2022), and the sum of scaled gradients is an ordinary gradient with scaled slopes
(book-keeping, Bu et al. 2023). One backward pass serves both. Where a layer has many positions and few
weights, its gradients are smaller than the products that avoid them; they are made then, one layer at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.grad import conv2d_weight

_NUMBERS_AT_ONCE = 64_000_000  # of a convolution's patches in memory


class Passed(NamedTuple):
    """What one pass left at a layer, `views` rows after each other for every record."""

    inputs: Tensor  # (rows * views, ...)
    slopes: Tensor  # (rows * views, ...), of the layer's outputs
    views: int


Sum = Callable[[Tensor], dict[str, Tensor]]
"""Factors (rows,) -> the sum of the records' gradients times their factors, by parameter."""


def supports(module: nn.Module) -> bool:
    """True for layers whose gradients this file knows; a subclass may compute anything."""
    if type(module) is nn.Conv2d:
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if type(module) is nn.Embedding:
        return module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
    return type(module) in (nn.Linear, nn.GroupNorm, nn.LayerNorm)


def squares_and_sum(module: nn.Module, passed: Passed) -> tuple[Tensor, Sum]:
    """Squared norms (rows,) of the records' gradients in the layer's trained parameters, and their sum."""
    if isinstance(module, nn.GroupNorm | nn.LayerNorm):
        return _of_small(_norm_layer(module, passed))
    if isinstance(module, nn.Embedding):
        return _embedding(module, passed)
    return _product(module, passed)


def _of_small(own: dict[str, Tensor]) -> tuple[Tensor, Sum]:
    """Of gradients that are at hand; name -> (rows, ...)."""
    squares = sum(g.flatten(1).square().sum(1) for g in own.values())
    assert isinstance(squares, Tensor), "the layer has a trained parameter"
    return squares, lambda factor: {name: torch.tensordot(factor, g, 1) for name, g in own.items()}


def _norm_layer(module: nn.GroupNorm | nn.LayerNorm, passed: Passed) -> dict[str, Tensor]:
    x, g = passed.inputs.float(), passed.slopes.float()
    n_rows = len(x) // passed.views
    if isinstance(module, nn.GroupNorm):
        own = {"weight": g * F.group_norm(x, module.num_groups, eps=module.eps), "bias": g}
        shape, axes = [n_rows, passed.views, x.shape[1], -1], [1, 3]
    else:
        normalized = list(module.normalized_shape)
        own = {"weight": g * F.layer_norm(x, normalized, eps=module.eps), "bias": g}
        shape, axes = [n_rows, -1, *normalized], [1]
    return {name: own[name].reshape(shape).sum(axes) for name in trained_names(module)}


def _embedding(module: nn.Embedding, passed: Passed) -> tuple[Tensor, Sum]:
    n_rows = len(passed.inputs) // passed.views
    index, g = passed.inputs.reshape(n_rows, -1), passed.slopes.float()
    g = g.reshape(n_rows, index.shape[1], module.embedding_dim)
    if module.padding_idx is not None:
        g = g * (index != module.padding_idx)[..., None]
    same = index[:, :, None] == index[:, None, :]
    squares = (torch.matmul(g, g.transpose(1, 2)) * same).sum((1, 2))

    def summed(factor: Tensor) -> dict[str, Tensor]:
        scaled = (g * factor[:, None, None]).reshape(-1, module.embedding_dim)
        start = torch.zeros(module.num_embeddings, module.embedding_dim, device=g.device)
        return {"weight": start.index_add(0, index.reshape(-1), scaled)}

    return squares, summed


def _product(module: nn.Module, passed: Passed) -> tuple[Tensor, Sum]:
    """Of a linear layer or a convolution: every position adds the product of its inputs and slopes."""
    trained, (x, g, views) = trained_names(module), passed
    n_rows = len(x) // views
    squares = x.new_zeros(n_rows, dtype=torch.float32)
    if "weight" in trained:
        squares = squares + _weight_squares(module, x, g, views)
    if "bias" in trained:
        squares = squares + _positions(g, module, views).sum(2).square().sum(1)

    def summed(factor: Tensor) -> dict[str, Tensor]:
        scaled = g.float() * repeated(factor, views).view(-1, *(1 for _ in g.shape[1:]))
        by_name = {}
        if "weight" in trained:
            by_name["weight"] = _weight_gradient(module, x.float(), scaled)
        if "bias" in trained:
            by_name["bias"] = scaled.sum([axis for axis in range(g.ndim) if axis != _unit_axis(module, g)])
        return by_name

    return squares, summed


def _weight_squares(module: nn.Module, x: Tensor, g: Tensor, views: int) -> Tensor:
    if isinstance(module, nn.Linear):
        return _squares(_positions(x, module, views), _positions(g, module, views))
    assert isinstance(module, nn.Conv2d), "supports() says so"
    n_patches = g.shape[2:].numel()
    width = x.shape[1] * module.kernel_size[0] * module.kernel_size[1]
    at_once = views * max(1, _NUMBERS_AT_ONCE // (views * n_patches * width))
    parts = [
        _squares(_patches(module, some, views), _positions(slopes, module, views))
        for some, slopes in zip(torch.split(x, at_once), torch.split(g, at_once), strict=True)
    ]
    return torch.cat(parts)


def _squares(x: Tensor, g: Tensor) -> Tensor:
    """Squared norms of `g @ x.T`, (rows,); x is (rows, inputs, positions), g (rows, outputs, positions)."""
    n_positions = x.shape[2]
    if n_positions == 1:
        return x.square().sum((1, 2)) * g.square().sum((1, 2))
    if 2 * n_positions**2 <= x.shape[1] * g.shape[1]:
        return (torch.matmul(x.transpose(1, 2), x) * torch.matmul(g.transpose(1, 2), g)).sum((1, 2))
    return torch.matmul(g, x.transpose(1, 2)).square().sum((1, 2))


def _patches(module: nn.Conv2d, x: Tensor, views: int) -> Tensor:
    """What each position of the convolution sees; (rows, inputs, positions)."""
    assert not isinstance(module.padding, str), "supports() says so"
    seen = F.unfold(x.float(), module.kernel_size, module.dilation, module.padding, module.stride)
    return _merged(seen, views)


def _positions(t: Tensor, module: nn.Module, views: int) -> Tensor:
    """Rows of a layer's inputs or outputs as (rows, units, positions); views are positions too."""
    if isinstance(module, nn.Linear):
        return t.float().reshape(len(t) // views, -1, t.shape[-1]).transpose(1, 2)
    return _merged(t.float().flatten(2), views)


def _merged(t: Tensor, views: int) -> Tensor:
    """(rows * views, units, positions) -> (rows, units, views * positions)."""
    if views == 1:
        return t
    return t.reshape(-1, views, *t.shape[1:]).transpose(1, 2).flatten(2)


def _unit_axis(module: nn.Module, g: Tensor) -> int:
    return g.ndim - 1 if isinstance(module, nn.Linear) else 1


def _weight_gradient(module: nn.Module, x: Tensor, g: Tensor) -> Tensor:
    if isinstance(module, nn.Linear):
        return torch.matmul(g.reshape(-1, g.shape[-1]).T, x.reshape(-1, x.shape[-1]))
    assert isinstance(module, nn.Conv2d), "supports() says so"
    settings = (module.stride, module.padding, module.dilation, module.groups)
    made: Tensor = conv2d_weight(x, tuple(module.weight.shape), g, *settings)  # type: ignore[no-untyped-call]
    return made


def repeated(t: Tensor, views: int) -> Tensor:
    """Each entry of (rows,) once for every view; (rows * views,)."""
    return t[:, None].expand(-1, views).reshape(-1)


def trained_names(module: nn.Module) -> list[str]:
    """The layer's own parameters that are trained."""
    return [name for name, p in module.named_parameters(recurse=False) if p.requires_grad]
