"""Mixup: trains on mixtures of records, so that no record is seen as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_network, why_relaxed
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class Mixup(Defence):
    """Batches mixed with a permutation of themselves.

    Attributes:
        alpha: the share of a record in its mixture is drawn from Beta(alpha, alpha).
    """

    alpha: float = 0.5

    name = "mixup"
    changes = "recipe"
    strengths = ({"alpha": 0.1}, {"alpha": 0.5}, {"alpha": 2.0})
    source = "Zhang et al. 2018"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("alpha", 0 < self.alpha < math.inf, "above 0")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks have it, and not with RelaxLoss."""
        return why_no_network(recipe) or why_relaxed(recipe)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this alpha, or its own if that is larger."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, mixup=max(self.alpha, recipe.mixup))
