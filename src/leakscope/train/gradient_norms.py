"""The norm of each record's own loss gradient.

Read early, it is GraNd (Paul, Ganguli and Dziugaite 2021); squared and summed over checkpoints with the
learning rates, it is TracIn's self-influence (Pruthi et al. 2020). `hardness.registry.gradient_measures`
makes both.

A bank stores signals, not weights. A model is determined by its row of the design, the recipe and (run seed,
model index), so training it again, alone, gives the network at any checkpoint, up to floating-point rounding.
(A user's own module that draws from torch's global generator gives a similar network, not the same.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from leakscope.recipe import Recipe
from leakscope.train.loop import Inputs, train_stages
from leakscope.train.losses import PLAIN
from leakscope.train.stages import stages_of
from leakscope.train.state import TrainingState
from leakscope.types import Design

Measure = TypeVar("Measure")

_NUMBERS_AT_ONCE = 20_000_000  # entries of single records' gradients held together
_ROWS_AT_ONCE = 4096


def at_checkpoints(
    measure: Callable[[nn.Module], Measure],
    inputs: Inputs,
    design: Design,
    recipe: Recipe,
    model: int,
    seed: int,
) -> list[Measure]:
    """The value of `measure` for the network at each of the recipe's checkpoints.

    `measure` gets the network in evaluation mode and must not change it: training then continues. `design` is
    that of the whole bank; give the bank's recipe other `checkpoints` to measure elsewhere.
    """
    alone = np.array([model])
    stages = stages_of(recipe, *inputs.trained_on(design, recipe), alone, seed, inputs.n_outputs)
    state = TrainingState(np.zeros(1, dtype=np.int64), None, stages.sizes, stages.carried)
    values = []
    for stack, epoch in train_stages(inputs, design.take(alone), recipe, stages, "serial", state):
        if state.is_last_stage and epoch in recipe.evaluated_epochs:
            values.append(measure(stack.nets[0].eval()))
    return values


def record_gradient_norms(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Norm of each record's loss gradient in all trained weights, the network in evaluation mode.

    `x` is float (records, ...), `y` int64 classes or float targets (records,); float32 (records,).
    """
    trained = {name: p.detach() for name, p in net.named_parameters() if p.requires_grad}
    fixed = {name: t.detach() for name, t in net.state_dict().items() if name not in trained}

    def loss(weights: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        outputs = functional_call(net, {**weights, **fixed}, (row[None],))
        return PLAIN.row_losses(outputs, label[None])[0]

    def norm(row: Tensor, label: Tensor) -> Tensor:
        gradients = grad(loss)(trained, row, label)
        return torch.stack([g.square().sum() for g in gradients.values()]).sum().sqrt()

    rows = max(1, _NUMBERS_AT_ONCE // max(1, sum(p.numel() for p in trained.values())))
    return vmap(norm, chunk_size=min(rows, _ROWS_AT_ONCE))(x, y)
