"""What training minimizes: the loss of one row, and its gradient at the network's outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from leakscope.recipe import Recipe


@dataclass(frozen=True)
class Objective:
    """The training loss of a recipe: cross-entropy for classes, squared error for real labels.

    A class is an integer, or a soft label: a probability for each class.

    Attributes:
        label_smoothing: share of the label's probability that is spread over all classes.
    """

    label_smoothing: float = 0.0

    @classmethod
    def of(cls, recipe: Recipe) -> Objective:
        """The objective of the recipe."""
        return cls(recipe.label_smoothing)

    def row_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Outputs (rows, outputs) and labels (rows,), soft ones (rows, outputs) -> (rows,)."""
        if y.is_floating_point() and y.ndim < outputs.ndim:
            return (outputs[..., 0] - y).square()
        return F.cross_entropy(outputs, y, reduction="none", label_smoothing=self.label_smoothing)

    def output_gradient_(self, outputs: Tensor, y: Tensor, row_weight: Tensor) -> Tensor:
        """Gradient of `sum(row_weight * row_losses)` at the outputs, computed in their place.

        Outputs are float (models, outputs, rows), labels and weights (models, rows), soft labels
        (models, rows, outputs).
        """
        if y.is_floating_point() and y.ndim < outputs.ndim:
            return outputs.sub_(y[:, None]).mul_(2 * row_weight[:, None])
        n_classes = outputs.shape[1]
        torch.softmax(outputs, 1, out=outputs)
        if self.label_smoothing:
            outputs.sub_(self.label_smoothing / n_classes)
        if y.is_floating_point():
            outputs.sub_(y.transpose(1, 2), alpha=1 - self.label_smoothing)
        else:
            outputs.scatter_(1, y[:, None], self.label_smoothing - 1, reduce="add")
        return outputs.mul_(row_weight[:, None])


PLAIN = Objective()
"""Without label smoothing."""
