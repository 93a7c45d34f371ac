"""Targeted treatment: the members most exposed early are left out, count less, or are clipped more."""

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
        how: "leave_out" (no training on them), "down_weight" (their loss counts a tenth) or "clip_more" (a
            recipe with DP-SGD clips their gradients to a tenth of its norm).
        share: of the members that are treated.
        choice: "early" (the most exposed in a quarter of the epochs, as `leakscope.Monitor` ranks them) or
            "random", for comparison.
    """

    how: Literal["leave_out", "down_weight", "clip_more"] = "leave_out"
    share: float = 0.05
    choice: Literal["early", "random"] = "early"

    name = "targeted"
    changes = "recipe"
    source = "leakscope, after arXiv 2507.23291"
    strengths = ({"share": 0.02}, {"share": 0.05}, {"share": 0.1})

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("share", 0 < self.share <= 0.5, "above 0 and at most 0.5")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks have epochs, and a model of one epoch has no early ones."""
        if isinstance(recipe, Recipe) and recipe.epochs < 2:
            return "a training run of one epoch has no early window"
        if isinstance(recipe, Recipe) and (recipe.privacy is not None) != (self.how == "clip_more"):
            needs = "needs" if self.how == "clip_more" else "cannot be combined with"
            return f"how={self.how!r} {needs} DP-SGD ([training.privacy])"
        return why_no_stages(recipe, records)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with the treatment."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, treatment=Treatment(self.how, self.choice, self.share), distillation=None)
