"""One model of a bank, trained again: for measures that need the network itself, not its outputs.

A bank stores signals, not weights. A model is determined by its row of the design, the recipe and (run seed,
model index), so training it again, alone, gives the network at any checkpoint, up to floating-point rounding.
(A user's own module that draws from torch's global generator gives a similar network, not the same.)
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

Measure = TypeVar("Measure")


def at_checkpoints(
    measure: Callable[[nn.Module], Measure],
    inputs: Inputs,
    design: Design,
    recipe: Recipe,
    model: int,
    seed: int,
) -> list[Measure]:
    """The value of `measure` for the network at each of the recipe's checkpoints.

    Args:
        measure: gets the network in evaluation mode; must not change it. Training then continues.
        inputs: the records.
        design: the design of the whole bank.
        recipe: the bank's recipe; give it other `checkpoints` to measure elsewhere.
        model: which model of the bank.
        seed: the bank's run seed.
    """
    alone = np.array([model])
    (net,) = initial_nets(recipe, inputs, alone, seed)
    stack = SerialModel([net], recipe.label_smoothing, inputs.x.device)
    plan = BatchPlan(design, alone, recipe.batch_size, seed)
    values = []
    for epoch in train(stack, inputs, plan, recipe):
        if epoch in recipe.evaluated_epochs:
            values.append(measure(net.eval()))
    return values
