"""Sharpness-aware minimization: prefers weights whose whole neighborhood has a low loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_network
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class Sam(Defence):
    """Sharpness-aware minimization around the optimizer.

    Attributes:
        rho: radius of the neighborhood.
    """

    rho: float = 0.05

    name = "sam"
    changes = "recipe"
    strengths = ({"rho": 0.02}, {"rho": 0.05}, {"rho": 0.2})
    source = "Foret et al. 2021"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("rho", 0 < self.rho < math.inf, "above 0")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks have it."""
        return why_no_network(recipe)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this radius, or its own if that is larger."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, sam_rho=max(self.rho, recipe.sam_rho))
