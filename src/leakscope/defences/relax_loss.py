"""RelaxLoss: keeps the training loss at a target, so that members look like non-members."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_classifying_network
from leakscope.recipe import SOFT_LABELS, AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class RelaxLoss(Defence):
    """Below a target loss, batches ascend and move misclassified records towards flat labels, in turns.

    Attributes:
        target: the loss of a batch at which training settles; above the loss of the test records, it costs
            accuracy.
    """

    target: float = 0.3

    name = "relax_loss"
    changes = "recipe"
    strengths = ({"target": 0.1}, {"target": 0.3}, {"target": 1.0})
    source = "Chen et al. 2022"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("target", 0 < self.target < math.inf, "above 0")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks that classify have it, and only with the labels as they are."""
        soft = [name for name in SOFT_LABELS if isinstance(recipe, Recipe) and getattr(recipe, name)]
        if soft:
            return f"the recipe has {', '.join(soft)}, and RelaxLoss has labels of its own"
        reason = why_no_classifying_network(recipe, records)
        guessing = math.log(max(records.n_classes, 2))
        if reason is None and self.target >= guessing:
            return f"guessing has a loss of {guessing:.2f}, and no model would be better"
        return reason

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this target, or its own if that is higher."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, relax_loss=max(self.target, recipe.relax_loss))
