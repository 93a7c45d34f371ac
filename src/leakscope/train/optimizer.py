"""SGD, Adam and AdamW over stacked parameters, in place, by torch's fused kernels.

The kernels are the ones behind `torch.optim.*(fused=True)`; calling them directly leaves out that
class's bookkeeping, which costs more than the arithmetic when models are small. Sharpness-aware minimization
goes around any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from leakscope.recipe import Recipe

_SMALLEST_NORM = 1e-12  # a model without gradient stays where it is


class Optimizer:
    """The recipe's optimizer with its state; every tensor's first axis is the model.

    Attributes:
        moments: none, the momentum of SGD, or both moments of Adam; each as the parameters.
        count: the number of steps taken. One counter serves all tensors: the kernels only read it.
    """

    def __init__(self, recipe: Recipe, parameters: list[Tensor]) -> None:
        self._recipe = recipe
        self._parameters = parameters
        n_moments = 2 if recipe.optimizer != "sgd" else int(recipe.momentum > 0)
        self.moments = [[torch.zeros_like(p) for p in parameters] for _ in range(n_moments)]
        self.count = torch.zeros((), device=parameters[0].device)
        self._counts = [self.count] * len(parameters)

    @property
    def tensors(self) -> list[Tensor]:
        """Everything a step changes, parameters included."""
        return [*self._parameters, *(t for moment in self.moments for t in moment)]

    def step(self, gradients: list[Tensor], lr: float | Tensor) -> None:
        """One update at learning rate `lr`; a tensor on the device where a step is captured."""
        self.count += 1
        if self._recipe.optimizer == "sgd":
            self._sgd(gradients, lr)
        else:
            self._adam(gradients, lr)

    def _sgd(self, gradients: list[Tensor], lr: float | Tensor) -> None:
        torch._fused_sgd_(
            self._parameters,
            gradients,
            self.moments[0] if self.moments else [],
            weight_decay=self._recipe.weight_decay,
            momentum=self._recipe.momentum,
            lr=lr,
            dampening=0.0,
            nesterov=self._recipe.nesterov,
            maximize=False,
            is_first_step=False,  # the momentum starts at zero, which makes the first step equal
        )

    def _adam(self, gradients: list[Tensor], lr: float | Tensor) -> None:
        kernel = torch._fused_adam_ if self._recipe.optimizer == "adam" else torch._fused_adamw_
        kernel(
            self._parameters,
            gradients,
            self.moments[0],
            self.moments[1],
            [],
            self._counts,
            lr=lr,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self._recipe.weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def sharpness_aware(
    gradients: Callable[[], list[Tensor]], parameters: list[Tensor], buffers: Iterable[Tensor], rho: float
) -> list[Tensor]:
    """Gradients at the worst point of a ball of radius `rho` around the parameters (Foret et al. 2021).

    To first order it is `w + rho g / ||g||`, the norm over all parameters of one model. Afterwards parameters
    are as before, and buffers (batch-norm statistics and the like) as after one ordinary pass.
    """
    here = gradients()
    squares = torch.stack([g.flatten(1).square().sum(1) for g in here])  # (tensors, models)
    scale = rho / squares.sum(0).sqrt().clamp(min=_SMALLEST_NORM)
    before, statistics = [p.clone() for p in parameters], [(b, b.clone()) for b in buffers]
    for p, g in zip(parameters, here, strict=True):
        p.add_(g * scale.view(-1, *(1 for _ in g.shape[1:])))
    there = gradients()
    for p, value in zip(parameters, before, strict=True):
        p.copy_(value)
    for buffer, value in statistics:
        buffer.copy_(value)
    return there
