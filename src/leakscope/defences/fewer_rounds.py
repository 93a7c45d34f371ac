"""Fewer rounds: boosting that stops earlier fits single records less closely."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.defences.base import Defence
from leakscope.defences.estimator_parameters import parameters_named, with_parameters
from leakscope.recipe import AnyRecipe, EstimatorRecipe
from leakscope.types import Records

_ROUNDS = {"n_estimators": ("GradientBoosting", "AdaBoost"), "max_iter": ("HistGradientBoosting",)}
"""Parameter -> names that the classes begin with in which it counts rounds of boosting."""


@dataclass(frozen=True)
class FewerRounds(Defence):
    """Fewer rounds of boosting.

    Attributes:
        share: of the rounds that the estimator has.
    """

    share: float = 0.3

    name = "fewer_rounds"
    changes = "recipe"
    strengths = ({"share": 0.5}, {"share": 0.3}, {"share": 0.1})
    source = "Friedman 2001"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only boosting has rounds: a forest of fewer trees leaks more."""
        if not isinstance(recipe, EstimatorRecipe):
            return "it acts on the parameters of a scikit-learn estimator"
        if not _rounds(recipe):
            return f"{type(recipe.estimator).__name__} has no rounds of boosting"
        return None

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with fewer rounds, one at least."""
        fewer = {name: max(round(self.share * value), 1) for name, value in _rounds(recipe).items()}
        return with_parameters(recipe, fewer)


def _rounds(recipe: AnyRecipe) -> dict[str, int]:
    if not isinstance(recipe, EstimatorRecipe):
        return {}
    own = {"": recipe.estimator, **recipe.estimator.get_params(deep=True)}
    return {
        key: value
        for name, classes in _ROUNDS.items()
        for key, value in parameters_named(recipe, name).items()
        if type(own[key.rpartition("__")[0]]).__name__.startswith(classes)
    }
