"""A model's outputs in, signals per record out, on the device the outputs are on.

A classifier's signals are computed from log-probabilities by logsumexp, never as log(softmax). `registry.py`
lists the signals with their inputs and directions.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from leakscope.errors import InputError
from leakscope.signals.registry import CLASSIFICATION, REGRESSION, Signal, find_signal
from leakscope.signals.residuals import LINEAR_SPREADS


def classification_signals(logits: Tensor, labels: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
    """The named signals.

    Args:
        logits: float (..., classes).
        labels: int64 (...,).
        names: shipped signals, or a user's own as "package.module:function".

    Returns:
        name -> float32 (...,); `correct` is bool, `logits` keeps its last axis.
    """
    signals = [find_signal(name, CLASSIFICATION) for name in names]
    for signal in signals:
        if signal.inputs == "queries":
            raise InputError(f"signals={signal.name!r} queries the model again; saved outputs do not have it")
    is_shared = any(signal.inputs == "log_odds" for signal in signals)
    odds = log_odds(logits, labels) if is_shared else logits
    inputs = {"logits": (logits,), "logits and label": (logits, labels), "log_odds": (odds,)}
    return {signal.name: _computed(signal, inputs, logits, labels) for signal in signals}


def regression_signals(
    outputs: Tensor, targets: Tensor, spread: float, names: tuple[str, ...]
) -> dict[str, Tensor]:
    """The named signals of regression models; name -> float (models, records).

    Args:
        outputs: float (models, records).
        targets: float (models, records) or (records,).
        spread: of the labels of all records (`leakscope.signals.residuals.label_spread`).
        names: shipped signals, or a user's own as "package.module:function".
    """
    residual, targets = outputs - targets, targets.expand_as(outputs)
    inputs: dict[str, tuple[Tensor | float, ...]] = {
        "residual": (residual,),
        "residual and label spread": (residual, spread),
    }
    signals = [find_signal(name, REGRESSION) for name in names]
    return {signal.name: _computed(signal, inputs, outputs[..., None], targets) for signal in signals}


def _computed(
    signal: Signal, inputs: Mapping[str, tuple[Tensor | float, ...]], logits: Tensor, labels: Tensor
) -> Tensor:
    """A signal from its inputs."""
    if signal.is_own:
        return own_signal(signal, logits, labels)
    shipped: Tensor = signal.compute(*inputs[signal.inputs])
    return shipped


def own_signal(signal: Signal, logits: Tensor, labels: Tensor) -> Tensor:
    """A user's signal: float32 (...,), or integers or bools as they are."""
    values = signal.compute(logits, labels)
    if not isinstance(values, Tensor) or values.shape != labels.shape:
        shape = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise InputError(
            f"signals={signal.name!r} returned {shape}; return a tensor of shape {tuple(labels.shape)}, one "
            "number per record"
        )
    return values.float() if values.is_floating_point() else values


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """LiRA's scaled confidence `z_y - logsumexp(z without y)`; exact at any magnitude."""
    others = logits.scatter(-1, labels[..., None], -torch.inf)
    return true_logit(logits, labels) - others.logsumexp(-1)


def unchanged(values: Tensor) -> Tensor:
    """The logits or log-odds themselves."""
    return values


def loss_from_log_odds(odds: Tensor) -> Tensor:
    """Cross-entropy `logsumexp(z) - z_y`, as softplus(-log_odds), which keeps its digits near 0."""
    return torch.nn.functional.softplus(-odds)


def true_prob(odds: Tensor) -> Tensor:
    """Probability of the label, from log-odds."""
    return torch.sigmoid(odds)


def true_logit(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label."""
    return logits.gather(-1, labels[..., None])[..., 0]


def max_logit(logits: Tensor) -> Tensor:
    """Largest logit."""
    return logits.amax(-1)


def max_prob(logits: Tensor) -> Tensor:
    """Largest probability."""
    return logits.softmax(-1).amax(-1)


def correct(logits: Tensor, labels: Tensor) -> Tensor:
    """Whether the prediction is the label; bool."""
    return logits.argmax(-1) == labels


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the prediction in nats."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def modified_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Song and Mittal (2021): `-(1-p_y) log p_y - sum_{c != y} p_c log(1-p_c)`, in nats."""
    p = logits.softmax(-1)
    others = p.scatter(-1, labels[..., None], 0.0)
    wrong = (others * _log_one_minus(p, logits)).sum(-1)
    return _not_own(logits, labels) * loss_from_log_odds(log_odds(logits, labels)) - wrong


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


def squared_residual(residual: Tensor) -> Tensor:
    """The squared error."""
    return residual.square()


def scaled_residual(residual: Tensor, spread: float) -> Tensor:
    """`asinh(residual / (3 spread))`: the residual in spreads of the labels; large ones are compressed.

    Over models, the residual of a record is close to Gaussian, and its sign says on which side of the label a
    model errs. Compression keeps a label that is wrong by orders of magnitude from setting the scale.
    """
    return torch.asinh(residual / (LINEAR_SPREADS * spread))
