"""Who launches the steps of a block: a CUDA graph, compiled code, or the host, one kernel after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch.nn.functional import one_hot

from leakscope.errors import first_line
from leakscope.recipe import Recipe
from leakscope.train.captured import CapturedSteps
from leakscope.train.compiled_steps import CompiledSteps, compiled_steps
from leakscope.train.poisson import Plan
from leakscope.train.side_by_side import SerialModel
from leakscope.train.steps import HostSteps, Stack

if TYPE_CHECKING:
    from leakscope.train.loop import Inputs

Note = Callable[[str], None]
"""Called with what did not go as planned, for the manifest."""


def steps_of(
    stack: Stack, inputs: Inputs, plan: Plan, recipe: Recipe, note: Note
) -> HostSteps | CapturedSteps | CompiledSteps:
    """Captured where there is a CUDA device, compiled where there is a compiler, and the step allows it."""
    y = inputs.y
    if recipe.mixup and not y.is_floating_point():
        y = one_hot(y, inputs.n_outputs).float()
    arguments = (stack, inputs.x, y, plan, recipe)
    if inputs.x.device.type == "cuda" and not isinstance(stack, SerialModel):
        try:
            return CapturedSteps(*arguments)
        except (RuntimeError, NotImplementedError) as error:
            note(f"steps launched one by one, not captured: {first_line(error)}")
    read = None if inputs.on_disk is None else inputs.rows
    return compiled_steps(*arguments, read) or HostSteps(*arguments, inputs.rows)
