"""What training minimizes: the loss of a batch, and its gradient at the network's outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from leakscope.recipe import Recipe
from leakscope.train.smoothing import smoothing_of

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Objective:
    """The training loss of a recipe: cross-entropy for classes, squared error for real labels.

    Labels are class indices (rows,), real numbers (rows,) or probabilities of classes (rows, classes).

    Attributes:
        label_smoothing: share of the label's probability that is spread over all classes.
        label_entropy: entropy of the labels as a share of the largest there is; they are smoothed to have it.
        entropy_weight: of the outputs' entropy, which is subtracted from the loss.
        relax_loss: the loss of a batch that training settles at (Chen et al. 2022); 0: as low as it can be.
        flattens: float (), 1 in epochs that flatten posteriors, else 0; of `relax_loss`.
    """

    label_smoothing: float = 0.0
    label_entropy: float = 0.0
    entropy_weight: float = 0.0
    relax_loss: float = 0.0
    flattens: Tensor | None = field(default=None, compare=False)

    @classmethod
    def of(cls, recipe: Recipe, device: torch.device = CPU) -> Objective:
        """The objective of the recipe."""
        return cls(
            recipe.label_smoothing,
            recipe.label_entropy,
            recipe.entropy_weight,
            recipe.relax_loss,
            torch.zeros((), device=device) if recipe.relax_loss else None,
        )

    def begin_epoch(self, epoch: int) -> None:
        """Before the steps of an epoch; the first is epoch 0."""
        if self.flattens is not None:
            self.flattens.fill_(epoch % 2)

    def loss(self, outputs: Tensor, y: Tensor, row_weight: Tensor) -> Tensor:
        """The loss of one model's batch; outputs are (rows, outputs), labels and weights (rows, ...)."""
        losses = self.row_losses(outputs, y)
        weighted = (losses * row_weight).sum()
        if self.flattens is None:
            return weighted
        sign, flat_weight = self._relaxed(outputs.detach(), y, row_weight, weighted.detach(), self.flattens)
        soft = F.cross_entropy(outputs, _flat_labels(outputs.detach(), y), reduction="none")
        return sign * weighted + (flat_weight * soft).sum()

    def row_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of each row by itself, whatever its batch; (rows,)."""
        if y.ndim < outputs.ndim and y.is_floating_point():
            return (outputs[..., 0] - y).square()
        smoothing = self.smoothing(outputs.shape[-1])
        losses = F.cross_entropy(outputs, y, reduction="none", label_smoothing=smoothing)
        if self.entropy_weight:
            log_p = outputs.log_softmax(-1)
            losses = losses + self.entropy_weight * (log_p.exp() * log_p).sum(-1)
        return losses

    def output_gradient_(self, outputs: Tensor, y: Tensor, row_weight: Tensor) -> Tensor:
        """Gradient of `loss` of each model at the outputs, computed in their place.

        Outputs are float (models, outputs, rows), labels (models, rows) or (models, rows, classes), weights
        (models, rows).
        """
        if y.ndim == 2 and y.is_floating_point():
            return outputs.sub_(y[:, None]).mul_(2 * row_weight[:, None])
        if self.flattens is not None:
            return outputs.copy_(self._relaxed_gradient(outputs, y, row_weight, self.flattens))
        n_classes = outputs.shape[1]
        smoothing = self.smoothing(n_classes)
        slope = self._entropy_slope(outputs) if self.entropy_weight else None
        torch.softmax(outputs, 1, out=outputs)
        if smoothing:
            outputs.sub_(smoothing / n_classes)
        if y.ndim == 3:
            outputs.sub_(y.transpose(1, 2), alpha=1 - smoothing)
        else:
            outputs.scatter_(1, y[:, None], smoothing - 1, reduce="add")
        if slope is not None:
            outputs.add_(slope)
        return outputs.mul_(row_weight[:, None])

    def smoothing(self, n_classes: int) -> float:
        """The share of a label's probability that is spread over all classes."""
        return smoothing_of(self.label_smoothing, self.label_entropy, n_classes)

    def _entropy_slope(self, outputs: Tensor) -> Tensor:
        """Gradient of `-entropy_weight * entropy` at outputs (models, classes, rows)."""
        log_p = outputs.log_softmax(1)
        p = log_p.exp()
        return self.entropy_weight * p * (log_p - (p * log_p).sum(1, keepdim=True))

    def _relaxed(
        self, outputs: Tensor, y: Tensor, row_weight: Tensor, loss: Tensor, flattens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Below the target loss: the sign of the batch's loss, and the weights of flat labels.

        Outputs are (..., rows, classes). A batch whose loss has reached the target ascends. In every other
        epoch, its rows that are misclassified move towards flat labels as well.
        """
        is_below = (loss < self.relax_loss).to(row_weight.dtype)
        is_wrong = outputs.argmax(-1) != y
        return 1 - 2 * is_below, (is_below * flattens)[..., None] * row_weight * is_wrong

    def _relaxed_gradient(self, outputs: Tensor, y: Tensor, row_weight: Tensor, flattens: Tensor) -> Tensor:
        """As `output_gradient_`; not in place."""
        z = outputs.transpose(1, 2)  # (models, rows, classes)
        log_p = z.log_softmax(-1)
        p, one_hot = log_p.exp(), torch.zeros_like(log_p).scatter(-1, y[..., None], 1.0)
        loss = -((log_p * one_hot).sum(-1) * row_weight).sum(-1)
        sign, flat_weight = self._relaxed(z, y, row_weight, loss, flattens)
        towards_labels = (sign[:, None] * row_weight)[..., None] * (p - one_hot)
        towards_flat = flat_weight[..., None] * (p - _flat_labels(z, y))
        return (towards_labels + towards_flat).transpose(1, 2)


PLAIN = Objective()
"""Cross-entropy or squared error, with nothing added."""


def _flat_labels(outputs: Tensor, y: Tensor) -> Tensor:
    """Each row's own probability of its label; the rest is shared equally by the other classes."""
    own = outputs.softmax(-1).gather(-1, y[..., None])
    rest = ((1 - own) / (outputs.shape[-1] - 1)).expand_as(outputs)
    return rest.scatter(-1, y[..., None], own)
