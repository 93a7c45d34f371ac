"""The training loss of one row, and its gradient at the network's outputs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def row_losses(outputs: Tensor, y: Tensor, label_smoothing: float) -> Tensor:
    """Cross-entropy for integer labels, squared error for real ones; (rows,)."""
    if y.is_floating_point():
        return (outputs[..., 0] - y).square()
    return F.cross_entropy(outputs, y, reduction="none", label_smoothing=label_smoothing)


def output_gradient_(outputs: Tensor, y: Tensor, row_weight: Tensor, label_smoothing: float) -> Tensor:
    """Gradient of `sum(row_weight * row_losses)` at the outputs, computed in their place.

    Outputs are float (models, outputs, rows), labels and weights (models, rows).
    """
    if y.is_floating_point():
        return outputs.sub_(y[:, None]).mul_(2 * row_weight[:, None])
    n_classes = outputs.shape[1]
    torch.softmax(outputs, 1, out=outputs)
    if label_smoothing:
        outputs.sub_(label_smoothing / n_classes)
    outputs.scatter_(1, y[:, None], label_smoothing - 1, reduce="add")
    return outputs.mul_(row_weight[:, None])
