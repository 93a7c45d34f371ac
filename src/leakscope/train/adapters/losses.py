"""The loss of documents: the mean over a document's tokens of minus the logarithm of their probabilities.

The first token is predicted from nothing, so it does not count. Positions behind the end of a document hold
-1 and do not count either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from leakscope.disk.scratch import blocks

LOGITS_AT_ONCE = 2**28
"""Numbers that the head of the base puts out at once in training."""

LossAndSlopes = Callable[[Tensor, Tensor, Tensor | None, Tensor, Tensor], tuple[Tensor, Tensor]]


def token_weights(tokens: Tensor, weight: Tensor) -> Tensor:
    """What each predicted token weighs: its document's weight over its number of predicted tokens.

    Tokens are (documents, positions), weights (documents,); returns (documents, positions - 1).
    """
    counts = tokens[:, 1:] >= 0
    per_token: Tensor = weight / counts.sum(1).clamp(min=1)
    return counts * per_token[:, None]


def loss_and_slopes(
    hidden: Tensor, head: Tensor, bias: Tensor | None, targets: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """`sum(weight * loss)` behind a linear head, and its slopes at the head's inputs.

    hidden is (rows, inputs), head (tokens, inputs), bias (tokens,), targets and weight (rows,).
    """
    log_p = F.linear(hidden, head, bias).float().log_softmax(-1)
    index = targets[:, None]
    total = -(log_p.gather(1, index)[:, 0] * weight).sum()
    at_outputs = (log_p.exp() * weight[:, None]).scatter_add(1, index, -weight[:, None])
    return total, (at_outputs.to(head.dtype) @ head).to(hidden.dtype)


class HeadLoss(torch.autograd.Function):
    """The weighted loss of all tokens, behind a frozen linear head.

    A vocabulary is large: the outputs of the head are made some rows at a time, and become the slopes of its
    inputs at once. Neither outputs nor probabilities are stored for the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        weight: Tensor,
        compute: LossAndSlopes,
    ) -> Tensor:
        """`sum(weight * loss)`; `compute` is `loss_and_slopes`, compiled or not."""
        at_once = _rows_at_once(len(head), len(hidden))
        total, slopes = torch.zeros((), device=hidden.device), []
        for some in blocks(len(hidden), at_once):
            part, slope = compute(hidden[some], head, bias, targets[some], weight[some])
            total = total + part
            slopes.append(slope)
        ctx.save_for_backward(torch.cat(slopes))
        return total

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """The slopes of the head's inputs."""
        (slopes,) = ctx.saved_tensors
        return slopes * slope.to(slopes.dtype), None, None, None, None, None


def logits_loss(logits: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """As `HeadLoss`, from the outputs themselves: (rows, tokens)."""
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    return (losses * weight).sum()


def _rows_at_once(n_tokens: int, n_rows: int) -> int:
    """A power of two, so that equal parts have one shape."""
    most = max(1, LOGITS_AT_ONCE // n_tokens)
    return int(min(n_rows, 1 << (most.bit_length() - 1)))
