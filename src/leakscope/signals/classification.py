"""Logits in, per-record signals out, on the device the logits are on.

Everything is computed from log-probabilities by logsumexp, never as log(softmax). Names and
directions (what a member looks like) are in `types.SIGNAL_DIRECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def classification_signals(logits: Tensor, labels: Tensor, kept: tuple[str, ...]) -> dict[str, Tensor]:
    """The named signals.

    Args:
        logits: float (..., classes).
        labels: int64 (...,).
        kept: names from `types.SIGNAL_DIRECTIONS`.

    Returns:
        name -> float32 (...,); `correct` is bool, `logits` keeps its last axis.
    """
    odds = log_odds(logits, labels) if _FROM_LOG_ODDS.keys() & set(kept) else None
    return {
        name: _CLASSIFICATION[name](logits, labels)
        if odds is None or name not in _FROM_LOG_ODDS
        else _FROM_LOG_ODDS[name](odds)
        for name in kept
    }


def regression_signals(
    outputs: Tensor, targets: Tensor, residual_sd: Tensor, kept: tuple[str, ...]
) -> dict[str, Tensor]:
    """Squared residual as `loss`, and the Gaussian log-density of the residual.

    Args:
        outputs: float (models, records).
        targets: float (models, records) or (records,).
        residual_sd: float (models,), each model's own residual spread on its members.
        kept: "loss", "log_density".
    """
    squared = (outputs - targets).square()
    variance = residual_sd.square()[:, None]
    log_density = -0.5 * (squared / variance + torch.log(2 * torch.pi * variance))
    return {name: {"loss": squared, "log_density": log_density}[name] for name in kept}


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """LiRA's scaled confidence `z_y - logsumexp(z without y)`; exact at any magnitude."""
    true = _at_label(logits, labels)
    others = logits.scatter(-1, labels[..., None], -torch.inf)
    return true - others.logsumexp(-1)


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy `logsumexp(z) - z_y`, as softplus(-log_odds), which keeps its digits near 0."""
    return _FROM_LOG_ODDS["loss"](log_odds(logits, labels))


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the prediction in nats."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def modified_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Song and Mittal (2021): `-(1-p_y) log p_y - sum_{c != y} p_c log(1-p_c)`, in nats."""
    p = logits.softmax(-1)
    others = p.scatter(-1, labels[..., None], 0.0)
    wrong = (others * _log_one_minus(p, logits)).sum(-1)
    return _not_own(logits, labels) * loss(logits, labels) - wrong


def top2_margin(logits: Tensor) -> Tensor:
    """Largest minus second largest probability."""
    top = logits.softmax(-1).topk(2, dim=-1).values
    return top[..., 0] - top[..., 1]


def gradient_proxy(logits: Tensor, labels: Tensor) -> Tensor:
    """Norm of the loss gradient at the logits, `||softmax(z) - onehot(y)||`."""
    others = logits.softmax(-1).scatter(-1, labels[..., None], 0.0)
    return (others.square().sum(-1) + _not_own(logits, labels).square()).sqrt()


def _not_own(logits: Tensor, labels: Tensor) -> Tensor:
    """1 - p_y, with its digits also where p_y rounds to 1."""
    return torch.sigmoid(-log_odds(logits, labels))


def _log_one_minus(p: Tensor, logits: Tensor) -> Tensor:
    """log(1 - p_c) for each class; the largest p, which may round to 1, through the other logits."""
    top = logits.argmax(-1, keepdim=True)
    others = logits.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True)
    log_not_top = others - logits.logsumexp(-1, keepdim=True)
    return torch.log1p(-p.scatter(-1, top, 0.0)).scatter(-1, top, log_not_top)


def _at_label(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(-1, labels[..., None])[..., 0]


_FROM_LOG_ODDS: dict[str, Callable[[Tensor], Tensor]] = {
    "loss": lambda odds: torch.nn.functional.softplus(-odds),
    "log_odds": lambda odds: odds,
    "true_prob": torch.sigmoid,
}
_CLASSIFICATION: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "true_logit": _at_label,
    "max_logit": lambda z, y: z.amax(-1),
    "max_prob": lambda z, y: z.softmax(-1).amax(-1),
    "entropy": lambda z, y: entropy(z),
    "modified_entropy": modified_entropy,
    "top2_margin": lambda z, y: top2_margin(z),
    "correct": lambda z, y: z.argmax(-1) == y,
    "gradient_proxy": gradient_proxy,
    "logits": lambda z, y: z,
}
CLASSIFICATION_SIGNALS = (*_FROM_LOG_ODDS, *_CLASSIFICATION)
