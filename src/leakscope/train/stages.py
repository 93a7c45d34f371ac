"""The stages of a training: the trainings that a block of models goes through, one after the other.

Most recipes have one stage. A recipe with a treatment or a distillation has early stages, which decide what
the models of the last stage are trained on. Only the models of the last stage are attacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.train.distillation import Distilled
from leakscope.train.poisson import Plan, plan_of
from leakscope.train.stage_size import StageSize
from leakscope.train.treatment import Treated
from leakscope.types import Design


class Stages(Protocol):
    """The stages of the training of one block."""

    @property
    def sizes(self) -> tuple[StageSize, ...]:
        """How long each stage is."""

    @property
    def carried(self) -> Mapping[str, AnyArray]:
        """What early stages found out, by name; saved with the state of the training."""

    def plan(self, stage: int) -> Plan:
        """The batches of a stage; its `seed` is that of everything random in the stage."""

    def reads(self, stage: int, epoch: int) -> str | None:
        """The signal that an early stage reads after an epoch, on every record; None: nothing."""

    def read(self, stage: int, values: AnyArray) -> None:
        """Takes the signal that was read; (models, columns[, classes])."""

    def labels(self, stage: int) -> AnyArray | None:
        """Soft labels of each model, float32 (models, records, classes); None: the records' own."""


@dataclass(frozen=True, eq=False)
class Single:
    """One stage, on all members alike."""

    only: Plan
    epochs: int
    carried: Mapping[str, AnyArray] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[StageSize, ...]:
        """The one stage."""
        return (StageSize(self.epochs, self.only.steps),)

    def plan(self, stage: int) -> Plan:
        """All members in batches."""
        return self.only

    def reads(self, stage: int, epoch: int) -> str | None:
        """Nothing: there is no early stage."""
        return None

    def read(self, stage: int, values: AnyArray) -> None:
        """Never called."""

    def labels(self, stage: int) -> AnyArray | None:
        """The records' own."""
        return None


def stages_of(
    recipe: Recipe,
    design: Design,
    copies: IntArray | None,
    models: IntArray,
    seed: int,
    n_outputs: int,
) -> Stages:
    """The stages that a recipe has for these models; `copies` says how often each record is trained on."""
    if copies is not None and (recipe.treatment or recipe.distillation):
        name = "treatment" if recipe.treatment else "distillation"
        raise InputError(f"{name} cannot be combined with duplicated canaries; plant another kind")
    if recipe.treatment is not None:
        return Treated(recipe, recipe.treatment, design, models, seed)
    if recipe.distillation is not None:
        if n_outputs < 2:
            raise InputError("distillation is for classification: numbers have no probabilities")
        return Distilled(recipe, recipe.distillation, design, models, seed, n_outputs)
    return Single(plan_of(design, copies, models, recipe, seed), recipe.epochs)
