"""Targeted treatment: the members most exposed early in training are left out or count less."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from leakscope.defences.base import Defence, why_no_stages
from leakscope.recipe import AnyRecipe, Recipe, Treatment
from leakscope.types import Records


@dataclass(frozen=True)
class Targeted(Defence):
    """Treatment of a share of each model's members (`Recipe.treatment`).

    Attributes:
        how: "leave_out" (no training on them) or "down_weight" (their loss counts a tenth).
        share: of the members that are treated.
        choice: "early" (the most exposed in a quarter of the epochs, as `leakscope.Monitor` ranks them) or
            "random", for comparison.
    """

    how: Literal["leave_out", "down_weight"] = "leave_out"
    share: float = 0.05
    choice: Literal["early", "random"] = "early"

    name = "targeted"
    changes = "recipe"
    source = "leakscope, after arXiv 2507.23291"
    strengths = ({"share": 0.02}, {"share": 0.05}, {"share": 0.1})

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks have epochs, and a model of one epoch has no early ones."""
        if isinstance(recipe, Recipe) and recipe.epochs < 2:
            return "a training of one epoch has no early window"
        return why_no_stages(recipe, records)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with the treatment."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, treatment=Treatment(self.how, self.choice, self.share), distillation=None)
