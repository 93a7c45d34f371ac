"""Pruning: branches that improve a tree by less than a threshold are cut off."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.defences.base import Defence
from leakscope.defences.estimator_parameters import parameters_named, why_no_parameter, with_parameters
from leakscope.recipe import AnyRecipe
from leakscope.types import Records

_NAME = "ccp_alpha"


@dataclass(frozen=True)
class Pruning(Defence):
    """Minimal cost-complexity pruning of trees.

    Attributes:
        threshold: gain in impurity per leaf below which a branch is cut off.
    """

    threshold: float = 0.003

    name = "pruning"
    changes = "recipe"
    strengths = ({"threshold": 0.001}, {"threshold": 0.003}, {"threshold": 0.01})
    source = "Breiman et al. 1984"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only trees are pruned, and the impurity of a regression has the unit of its labels."""
        if not records.is_classification:
            return "its threshold has the unit of the labels, and would have to be chosen for them"
        thresholds = parameters_named(recipe, _NAME).values()
        if thresholds and all(value >= self.threshold for value in thresholds):
            return f"{_NAME} is {', '.join(map(str, thresholds))} already"
        return why_no_parameter(recipe, _NAME)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this threshold, or its own where that is higher."""
        thresholds = parameters_named(recipe, _NAME)
        return with_parameters(recipe, {k: max(self.threshold, float(v)) for k, v in thresholds.items()})
