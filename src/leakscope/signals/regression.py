"""Outputs of a regression model in, signals per record out."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.signals.classification import own_signal
from leakscope.signals.registry import REGRESSION, find_signal


def regression_signals(
    outputs: Tensor, targets: Tensor, residual_sd: Tensor, names: tuple[str, ...]
) -> dict[str, Tensor]:
    """The named signals.

    Args:
        outputs: float (models, records).
        targets: float (models, records) or (records,).
        residual_sd: float (models,), the spread of each model's residuals on its members.
        names: shipped signals, or a user's own as "package.module:function".

    Returns:
        name -> float (models, records).
    """
    residual, spread = outputs - targets, residual_sd[:, None]
    inputs = {"residual": (residual,), "residual and its spread": (residual, spread)}
    return {
        signal.name: own_signal(signal, outputs[..., None], targets.expand_as(outputs))
        if signal.is_own
        else signal.compute(*inputs[signal.inputs])
        for signal in (find_signal(name, REGRESSION) for name in names)
    }


def squared_residual(residual: Tensor) -> Tensor:
    """The squared error."""
    return residual.square()


def log_density(residual: Tensor, spread: Tensor) -> Tensor:
    """Gaussian log-density of the residual."""
    variance = spread.square()
    return -0.5 * (residual.square() / variance + torch.log(2 * torch.pi * variance))
