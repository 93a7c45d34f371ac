"""Penalty: a stronger penalty on the coefficients of a linear model, a support vector machine or an MLP."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.defences.base import Defence
from leakscope.defences.estimator_parameters import penalties, why_no_parameter, with_parameters
from leakscope.recipe import AnyRecipe
from leakscope.types import Records


@dataclass(frozen=True)
class Penalty(Defence):
    """The penalty of a scikit-learn estimator, times a factor: `C` is divided by it, `alpha` multiplied.

    Attributes:
        factor: how many times as strong.
    """

    factor: float = 10.0

    name = "penalty"
    changes = "recipe"
    strengths = ({"factor": 3.0}, {"factor": 10.0}, {"factor": 100.0})
    source = "Hoerl and Kennard 1970"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only estimators with a penalty have one to strengthen."""
        reason = why_no_parameter(recipe, "C", "alpha")
        if reason or any(penalties(recipe)):
            return reason
        return "neither C nor alpha is the strength of a penalty here"

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with the stronger penalty."""
        of_c, of_alpha = penalties(recipe)
        weaker = {name: float(f"{value / self.factor:.6g}") for name, value in of_c.items()}
        stronger = {name: float(f"{value * self.factor:.6g}") for name, value in of_alpha.items()}
        return with_parameters(recipe, {**weaker, **stronger})
