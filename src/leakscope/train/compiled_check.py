"""Whether code that was just compiled trains as torch does."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch
from torch import nn

from leakscope.privacy.settings import Privacy
from leakscope.recipe import OPTIMIZERS, Recipe
from leakscope.train.compiled_steps import CompiledSteps
from leakscope.train.dense import DenseStack
from leakscope.train.losses import Objective
from leakscope.train.noise import compiled_numbers
from leakscope.train.poisson import plan_of
from leakscope.train.steps import Epoch, HostSteps
from leakscope.types import Design

_TOLERANCE = 1e-5  # parameters are about 0.3


def is_right(loaded: ctypes.CDLL) -> bool:
    """Whether a library trains as torch does: every optimizer and activation, odd sizes, privacy or not."""
    if compiled_numbers() is None:  # the noise of DP-SGD is compiled, too
        return False
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return all(
            _agrees(loaded, _check_recipe(optimizer, is_real, privacy), activation, is_real)
            for optimizer in OPTIMIZERS
            for activation in (nn.ReLU, nn.Tanh)
            for is_real in (False, True)
            for privacy in (None, Privacy(noise_multiplier=0.5, clip=0.7))
        )


def _check_recipe(optimizer: Any, is_real: bool, privacy: Privacy | None) -> Recipe:
    return Recipe(
        optimizer=optimizer,
        lr=0.02,
        momentum=0.9 if optimizer == "sgd" else 0.0,
        weight_decay=0.01,
        label_smoothing=0.0 if is_real else 0.1,
        batch_size=7,
        privacy=privacy,
    )


def _agrees(loaded: ctypes.CDLL, recipe: Recipe, activation: type[nn.Module], is_real: bool) -> bool:
    """Whether one epoch of two models ends with the parameters that torch ends with."""
    x, classes = torch.randn(20, 11), torch.arange(20) % 3
    y, n_outputs = (classes.float(), 1) if is_real else (classes, 3)
    nets: list[nn.Module] = [
        nn.Sequential(nn.Linear(11, 9), activation(), nn.Linear(9, n_outputs)) for _ in range(2)
    ]
    plan = plan_of(Design(np.arange(20) < np.array([[20], [13]])), None, np.arange(2), recipe, 0)
    (order,) = plan.epochs(1)
    stacks = [DenseStack(nets, Objective.of(recipe), x.device) for _ in range(2)]
    by_torch = HostSteps(stacks[0], x, y, plan, recipe)
    compiled = CompiledSteps(loaded, stacks[1], x, y, plan, recipe)
    for steps in (by_torch, compiled):
        steps.run_epoch(Epoch(order, [recipe.lr] * plan.steps))
        steps.finish()
    pairs = zip(*(stack.parameters for stack in stacks), strict=True)
    return all(bool(((a - b).abs() < _TOLERANCE).all()) for a, b in pairs)
