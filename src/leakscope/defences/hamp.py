"""HAMP: trains towards uncertain labels, and answers queries with the probabilities of random inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_classifying_network, why_relaxed
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.signals.output_filter import OutputFilter
from leakscope.types import Records


@dataclass(frozen=True)
class Hamp(Defence):
    """Labels and outputs of high entropy; a query returns the order of the classes and random values.

    Attributes:
        gamma: entropy of the labels, as a share of the largest there is.
        alpha: weight of the outputs' entropy, which is subtracted from the loss.
    """

    gamma: float = 0.7
    alpha: float = 0.01

    name = "hamp"
    changes = "recipe and outputs"
    strengths = (
        {"gamma": 0.4, "alpha": 0.001},
        {"gamma": 0.7, "alpha": 0.01},
        {"gamma": 0.95, "alpha": 0.1},
    )
    source = "Chen and Pattabiraman 2024"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("gamma", 0 < self.gamma < 1, "above 0 and below 1")
        self._check("alpha", 0 <= self.alpha < math.inf, "0 or more")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks that classify have it, and not with other soft labels."""
        if isinstance(recipe, Recipe) and recipe.label_smoothing:
            return "the recipe has label_smoothing, and HAMP smooths the labels itself"
        return why_no_classifying_network(recipe, records) or why_relaxed(recipe)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with these entropies, or its own if they are higher."""
        assert isinstance(recipe, Recipe)
        return replace(
            recipe,
            label_entropy=max(self.gamma, recipe.label_entropy),
            entropy_weight=max(self.alpha, recipe.entropy_weight),
        )

    def outputs(self, outputs: OutputFilter) -> OutputFilter:
        """The filter that returns values of random inputs."""
        return replace(outputs, random_values=True)
