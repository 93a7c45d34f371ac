"""SELENA: the model learns each member's label from sub-models that were not trained on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_stages
from leakscope.recipe import AnyRecipe, Distillation, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class Selena(Defence):
    """Self-ensemble distillation (`Recipe.distillation`); training takes 1 + models - left_out times as long.

    Attributes:
        models: number of sub-models; the publication has 25.
        left_out: number of sub-models that are not trained on a member; the publication has 10.
    """

    models: int = 5
    left_out: int = 2

    name = "selena"
    changes = "recipe"
    strengths = (
        {"models": 3, "left_out": 1},
        {"models": 5, "left_out": 2},
        {"models": 10, "left_out": 4},
    )
    source = "Tang et al. 2022"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks that classify have soft labels."""
        if not records.is_classification:
            return "a numeric label has no probabilities"
        return why_no_stages(recipe, records)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with the distillation."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, distillation=Distillation(self.models, self.left_out), treatment=None)
