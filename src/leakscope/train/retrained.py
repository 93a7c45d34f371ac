"""One model of a bank, trained again: for what needs the network itself, not its answers.

A bank keeps answers, not weights. It needs none: a model is fixed by its row of the design, the recipe and
(run seed, model index), so the network at any checkpoint comes back by training it again, alone, equal but
for floating-point rounding. (A module of a user's own that draws from torch's global generator is trained
likewise, not equally.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from torch import nn

from leakscope.recipe import Recipe
from leakscope.train.loop import Inputs, initial_nets, train
from leakscope.train.plan import BatchPlan
from leakscope.train.serial import SerialModel
from leakscope.types import Design

Measured = TypeVar("Measured")


def at_checkpoints(
    measure: Callable[[nn.Module], Measured],
    inputs: Inputs,
    design: Design,
    recipe: Recipe,
    model: int,
    seed: int,
) -> list[Measured]:
    """What `measure` says of the network at each of the recipe's checkpoints.

    Args:
        measure: gets the network in evaluation mode; must not change it. Training goes on afterwards.
        inputs: the records.
        design: the whole bank's.
        recipe: the bank's; give it other `checkpoints` to look elsewhere.
        model: which model of the bank.
        seed: the bank's run seed.
    """
    alone = np.array([model])
    (net,) = initial_nets(recipe, inputs, alone, seed)
    stack = SerialModel([net], recipe.label_smoothing, inputs.x.device)
    plan = BatchPlan(design, alone, recipe.batch_size, seed)
    found = []
    for epoch in train(stack, inputs, plan, recipe):
        if epoch in recipe.evaluated_epochs:
            found.append(measure(net.eval()))
    return found
