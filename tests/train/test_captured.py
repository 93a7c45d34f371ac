"""The step that CUDA captures, launched on the CPU: it ends where the host's steps end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

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
from leakscope.train.orders import Ranking
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
    def _captured(self) -> dict[int, torch.cuda.CUDAGraph]:
        return {n: _Launched(partial(self._steps, n)) for n in {1, self._together}}  # type: ignore[misc]


def state_after(stack: DenseStack | VmapStack, design: Design, recipe: Recipe) -> dict[str, Tensor]:
    plan = BatchPlan(design, np.arange(design.n_models), recipe.batch_size, 3)
    for _ in train(stack, inputs_from(class_records(), CPU), plan, recipe):
        pass
    return stack.state()


DESIGNS = {
    "models that wait": unequal_design((21, 8, 3), 40),
    "five steps of all": unequal_design((40, 38, 33), 40),
}


@pytest.mark.parametrize("maker", [DenseStack, VmapStack])
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("sizes", DESIGNS)
def test_it_ends_where_the_steps_of_the_host_end(
    sizes: str, name: str, maker: type[DenseStack] | type[VmapStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, design = RECIPES[name], DESIGNS[sizes]
    states = []
    monkeypatch.setenv("LEAKSCOPE_COMPILE", "0")
    monkeypatch.setattr(captured, "_MOST_STEPS", 4)  # two graphs of two steps of perceptrons, and one of one
    for is_captured in (False, True):
        if is_captured:
            monkeypatch.setattr(captured, "_put", lambda place, values: place.copy_(values))
            monkeypatch.setattr("leakscope.train.launch.HostSteps", lambda *a: LaunchedSteps(*a[:5]))
        nets = initial_nets(recipe, inputs_from(class_records(), CPU), np.arange(3), 3)
        states.append(state_after(maker(nets, Objective.of(recipe), CPU), design, recipe))
    assert_same_state(states[1], states[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("first", [0, 2])
def test_a_device_ranks_the_order_that_the_host_ranks(first: int) -> None:
    design = unequal_design((21, 8, 3, 1), 40)
    plans = [BatchPlan(design, np.arange(4), 8, 3) for _ in range(2)]
    ranking = Ranking(plans[0], CPU)
    pairs = zip(plans[0].draws(5, first), plans[1].epochs(5, first), strict=True)
    for draws, wanted in pairs:
        ranking.drawn.copy_(torch.from_numpy(draws))
        np.testing.assert_array_equal(ranking.order().numpy(), wanted)


def test_ties_are_ranked_by_position() -> None:
    plan = BatchPlan(Design(np.ones((1, 6), dtype=bool)), np.arange(1), 6, 0)
    ranking = Ranking(plan, CPU)
    ranking.drawn.copy_(torch.tensor([[0.5, 0.0, 0.5, 0.25, 0.0, 0.5]]))
    assert ranking.order().flatten().tolist() == [1, 4, 3, 0, 2, 5]
