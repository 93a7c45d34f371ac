"""Label smoothing: trains towards labels that are not certain, so that a model stays less confident."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_classifying_network, why_relaxed
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class LabelSmoothing(Defence):
    """Labels that give a share of their probability to all classes.

    Attributes:
        share: of the probability.
    """

    share: float = 0.1

    name = "label_smoothing"
    changes = "recipe"
    strengths = ({"share": 0.05}, {"share": 0.1}, {"share": 0.3})
    source = "Szegedy et al. 2016"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("share", 0 < self.share < 1, "above 0 and below 1")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks that classify have it, and not with other soft labels."""
        if isinstance(recipe, Recipe) and recipe.label_entropy:
            return "the recipe has label_entropy, which smooths the labels itself"
        return why_no_classifying_network(recipe, records) or why_relaxed(recipe)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this share, or its own if that is larger."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, label_smoothing=max(self.share, recipe.label_smoothing))
