"""How a block of language models is trained: side by side where the base allows it, or one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import IntArray
from leakscope.errors import InputError
from leakscope.models.language import Base, load_base
from leakscope.train.adapters.full import FullModel
from leakscope.train.adapters.stack import AdapterStack
from leakscope.train.losses import PLAIN, Objective
from leakscope.train.poisson import Plan
from leakscope.types import Records

if TYPE_CHECKING:
    from leakscope.train.loop import Inputs

_COMPILED_FROM = 50_000_000  # tokens a block is trained on, from which compiling its step pays
_TRIED_POSITIONS, _TRIED_SPREAD, _CLOSE = 8, 0.02, 1e-3


def base_of(recipe: AdapterRecipe, records: Records) -> Base:
    """The base of a recipe, with as many outputs as these records need."""
    return load_base(recipe.base, None if records.is_language else records.n_classes)


def language_stack(
    recipe: AdapterRecipe, inputs: Inputs, models: IntArray, seed: int, objective: Objective
) -> AdapterStack:
    """The block of models as training begins."""
    assert inputs.records is not None, "inputs were made by inputs_from"
    make, base = FullModel if recipe.full else AdapterStack, base_of(recipe, inputs.records)
    return make(base, recipe, models, seed, objective, inputs.x.device, inputs.x.shape[1])


def planned_stack(recipe: AdapterRecipe, inputs: Inputs, plan: Plan, objective: Objective) -> AdapterStack:
    """The block of models as training begins, compiled where that pays."""
    stack = language_stack(recipe, inputs, plan.models, plan.seed, objective)
    n_tokens = plan.steps * len(plan.models) * plan.batch * recipe.epochs * inputs.x.shape[1]
    is_long = inputs.x.device.type == "cuda" and n_tokens >= _COMPILED_FROM
    if is_long and recipe.privacy is None and not recipe.full:
        stack.network.compile()
    return stack


def choose_language_trainer(recipe: AdapterRecipe, inputs: Inputs) -> tuple[str, str | None]:
    """("adapters", None), or ("serial", why models are trained one after the other)."""
    if recipe.full or (recipe.trainer == "serial" and recipe.privacy is None):
        return "serial", None
    if not _are_independent(recipe, inputs):
        reason = "the layers of the base mix the documents of a batch"
        if recipe.privacy is not None or recipe.trainer == "stacked":
            setting = "trainer='stacked'" if recipe.privacy is None else "privacy"
            raise InputError(f"{setting}: base={recipe.base!r} cannot be trained so: {reason}")
        return "serial", f"trained one at a time: {reason}"
    return ("serial" if recipe.trainer == "serial" else "adapters"), None


def _are_independent(recipe: AdapterRecipe, inputs: Inputs) -> bool:
    """Whether models side by side give the outputs that each gives alone; mixtures of experts do not."""
    models, x = np.arange(2), inputs.rows(torch.arange(2, device=inputs.x.device))[:, :_TRIED_POSITIONS]
    together = language_stack(recipe, inputs, models, 0, PLAIN)
    alone = [language_stack(recipe, inputs, models[m : m + 1], 0, PLAIN) for m in models]
    rng = torch.Generator().manual_seed(0)
    for whole, *single in zip(together.parameters, *(one.parameters for one in alone), strict=True):
        whole.add_((torch.randn(whole.shape, generator=rng) * _TRIED_SPREAD).to(whole.device))
        for m, own in enumerate(single):
            own.copy_(whole[m : m + 1])
    try:
        expected = torch.cat([one.outputs(x[m : m + 1, None]) for m, one in enumerate(alone)])
        return _are_close(together.outputs(x[:, None]), expected)
    except RuntimeError:  # a layer that does not see all rows
        return False


def _are_close(given: Tensor, expected: Tensor) -> bool:
    return float((given - expected).abs().max()) <= _CLOSE * float(expected.abs().max())
