"""The loss of documents: the mean over a document's tokens of minus the logarithm of their probabilities.

The first token is predicted from nothing, so it does not count. Positions behind the end of a document hold
-1 and do not count either.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LOGITS_AT_ONCE = 2**28
"""Numbers that the head of the base puts out at once in training."""


def token_weights(tokens: Tensor, weight: Tensor) -> Tensor:
    """What each predicted token weighs: its document's weight over its number of predicted tokens.

    Tokens are (documents, positions), weights (documents,); returns (documents, positions - 1).
    """
    counts = tokens[:, 1:] >= 0
    per_token: Tensor = weight / counts.sum(1).clamp(min=1)
    return counts * per_token[:, None]


class HeadLoss(torch.autograd.Function):
    """The weighted loss of all tokens, behind a frozen linear head.

    A vocabulary is large: the outputs of the head are made some rows at a time, and become the slopes of its
    inputs at once. Neither outputs nor probabilities are stored for the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, bias: Tensor | None, targets: Tensor, weight: Tensor
    ) -> Tensor:
        """`sum(weight * loss)`; hidden is (rows, inputs), head (tokens, inputs), the rest (rows,)."""
        at_once = _rows_at_once(len(head), len(hidden))
        total, slopes = torch.zeros((), device=hidden.device), []
        for rows in range(0, len(hidden), at_once):
            some = slice(rows, rows + at_once)
            logits = torch.nn.functional.linear(hidden[some], head, bias).float()
            log_p = logits.log_softmax(-1)
            index = targets[some, None]
            total = total - (log_p.gather(1, index)[:, 0] * weight[some]).sum()
            at_outputs = log_p.exp_().mul_(weight[some, None]).scatter_add_(1, index, -weight[some, None])
            slopes.append(at_outputs.to(head.dtype) @ head)
        ctx.save_for_backward(torch.cat(slopes).to(hidden.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """The slopes of the head's inputs."""
        (slopes,) = ctx.saved_tensors
        return slopes * slope.to(slopes.dtype), None, None, None, None


def logits_loss(logits: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """As `HeadLoss`, from the outputs themselves: (rows, tokens)."""
    losses = torch.nn.functional.cross_entropy(logits.float(), targets, reduction="none")
    return (losses * weight).sum()


def _rows_at_once(n_tokens: int, n_rows: int) -> int:
    """A power of two, so that equal parts have one shape."""
    most = max(1, LOGITS_AT_ONCE // n_tokens)
    return int(min(n_rows, 1 << (most.bit_length() - 1)))
