"""Whether DP-SGD can train a network: every record must act on the model by its own gradient only."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from leakscope.errors import first_line
from leakscope.train.clipping import ClippedSum, Weights
from leakscope.train.dropout import SeededDropout
from leakscope.train.losses import PLAIN

_SAME = 1e-3  # of the largest output: rounding differs with the size of a batch


def why_not_private(net: nn.Module, x: Tensor, y: Tensor) -> str | None:
    """Why DP-SGD cannot protect the training of `net`, judged on two rows; None when it can."""
    if has_batch_norm(net):
        return BATCH_NORM
    try:
        return _why_not_by_row(net, x, y)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return f"it does not take single records ({first_line(error)})"


def _why_not_by_row(net: nn.Module, x: Tensor, y: Tensor) -> str | None:
    net = copy.deepcopy(net).train()
    for module in net.modules():
        if isinstance(module, SeededDropout):
            module.eval()  # its masks depend on the place in the batch, and on nothing in it
    before = {name: b.clone() for name, b in net.named_buffers()}
    with torch.no_grad():
        together, again = net(x), net(x)
    changed = [name for name, b in net.named_buffers() if not torch.equal(b, before[name])]
    if changed:
        return f"its buffer {changed[0]!r} changes with the records, without noise"
    with torch.no_grad():
        if not torch.equal(together, again):  # random numbers in it: compared without them
            together = net.eval()(x)
        apart = torch.cat([net(row[None]) for row in x])
    if float((together - apart).abs().max()) > _SAME * float(together.abs().max()):
        return "its output for a record depends on the other records of the batch"
    return _why_not_clipped(net.train(), x, y)


BATCH_NORM = 'it has batch norm, which mixes the records of a batch; set norm = "group" in its options'


def has_batch_norm(net: nn.Module) -> bool:
    """True when a layer of the network is batch norm."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in net.modules())


def _why_not_clipped(net: nn.Module, x: Tensor, y: Tensor) -> str | None:
    named = {name: p.detach() for name, p in net.named_parameters()}
    names = [name for name, p in net.named_parameters() if p.requires_grad]
    weights = Weights([named.pop(name) for name in names], named, dict(net.named_buffers()))
    clipped, rows = ClippedSum(names, PLAIN), (x[:, None], y)
    try:
        clipped.prepare(net, weights, *rows)
        clipped(net, weights, *rows, torch.ones(len(x), device=x.device), 1.0)
    except (RuntimeError, NotImplementedError) as error:
        return f"gradients of single records cannot be computed ({first_line(error)})"
    return None
