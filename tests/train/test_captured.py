"""The step that CUDA captures, launched on the CPU: it ends where the host's steps end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from leakscope.recipe import Recipe
from leakscope.train import captured
from leakscope.train.captured import CapturedSteps
from leakscope.train.dense import DenseStack
from leakscope.train.loop import initial_nets, inputs_from, train
from leakscope.train.losses import Objective
from leakscope.train.plan import BatchPlan
from leakscope.train.stacked import VmapStack
from leakscope.types import Design
from tests.train.problems import CPU, assert_same_state, class_records, mlp_recipe, unequal_design

USUAL = mlp_recipe(epochs=3)
RECIPES = {
    "usual": USUAL,
    "mixup": replace(USUAL, mixup=0.4),
    "mixup and sharpness": replace(USUAL, mixup=0.4, sam_rho=0.1),
    "relaxed": replace(USUAL, relax_loss=1.0, lr=0.2),
    "soft labels": replace(USUAL, label_entropy=0.6, entropy_weight=0.1),
}


class _Launched:
    """A graph whose replay calls the step."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.replay = step


class LaunchedSteps(CapturedSteps):
    def _captured(self) -> torch.cuda.CUDAGraph:
        return _Launched(self._step)  # type: ignore[return-value]


def state_after(stack: DenseStack | VmapStack, design: Design, recipe: Recipe) -> dict[str, Tensor]:
    plan = BatchPlan(design, np.arange(design.n_models), recipe.batch_size, 3)
    for _ in train(stack, inputs_from(class_records(), CPU), plan, recipe):
        pass
    return stack.state()


@pytest.mark.parametrize("maker", [DenseStack, VmapStack])
@pytest.mark.parametrize("name", RECIPES)
def test_it_ends_where_the_steps_of_the_host_end(
    name: str, maker: type[DenseStack] | type[VmapStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, design = RECIPES[name], unequal_design((21, 8, 3), 40)
    states = []
    monkeypatch.setenv("LEAKSCOPE_COMPILE", "0")
    for is_captured in (False, True):
        if is_captured:
            monkeypatch.setattr(captured, "_put", lambda place, values: place.copy_(values))
            monkeypatch.setattr("leakscope.train.launch.HostSteps", lambda *a: LaunchedSteps(*a[:5]))
        nets = initial_nets(recipe, inputs_from(class_records(), CPU), np.arange(3), 3)
        states.append(state_after(maker(nets, Objective.of(recipe), CPU), design, recipe))
    assert_same_state(states[1], states[0], rtol=1e-6, atol=1e-7)
