"""Weight decay: pulls weights towards zero at every step, so that a model memorizes less."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_network
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class WeightDecay(Defence):
    """Weight decay of the optimizer.

    Attributes:
        rate: as the optimizer takes it.
    """

    rate: float = 0.01

    name = "weight_decay"
    changes = "recipe"
    strengths = ({"rate": 0.001}, {"rate": 0.01}, {"rate": 0.1})
    source = "Krogh and Hertz 1991"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("rate", 0 < self.rate < math.inf, "above 0")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks have it."""
        return why_no_network(recipe)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this rate, or its own if that is higher."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, weight_decay=max(self.rate, recipe.weight_decay))
