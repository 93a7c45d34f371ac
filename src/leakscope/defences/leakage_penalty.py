"""Leakage penalty: the ridge weight of a linear regression is chosen against error plus leakage."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from leakscope.defences.base import Defence
from leakscope.defences.estimator_parameters import with_parameters
from leakscope.recipe import AnyRecipe, EstimatorRecipe
from leakscope.types import Records

_REPLACED = ("sklearn.linear_model._base:LinearRegression", "sklearn.linear_model._ridge:Ridge")


@dataclass(frozen=True)
class LeakagePenalty(Defence):
    """Ridge regression with a weight that is chosen against squared error plus leakage.

    `leakscope.leakage.regularized.LeakageRidge` takes the place of the regression.

    Attributes:
        strength: of the leakage, in units of the variance of the labels per nat.
    """

    strength: float = 1.0

    name = "leakage_penalty"
    changes = "recipe"
    strengths = ({"strength": 0.1}, {"strength": 1.0}, {"strength": 10.0})
    source = "Farokhi and Kaafar 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("strength", 0 < self.strength < inf, "above 0")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only linear regressions of few features have coefficients whose leakage can be estimated."""
        if not isinstance(recipe, EstimatorRecipe):
            return "it acts on the coefficients of a linear regression of scikit-learn"
        if records.is_classification:
            return "it is for regressions, whose labels are numbers"
        if not (_is_replaced(recipe.estimator) or _has_it(recipe.estimator)):
            return f"it acts on LinearRegression and Ridge, not on {type(recipe.estimator).__name__}"
        return _why_not_the_parameters(recipe.estimator) or _why_not_the_records(records)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with the other regression; one that has it already gets the higher strength."""
        from leakscope.leakage.regularized import LeakageRidge

        assert isinstance(recipe, EstimatorRecipe)
        if _has_it(recipe.estimator):
            return with_parameters(recipe, {"strength": max(self.strength, recipe.estimator.strength)})
        alpha = getattr(recipe.estimator, "alpha", 0.0)
        return EstimatorRecipe(LeakageRidge(alpha, self.strength), recipe.processes)


def _is_replaced(estimator: Any) -> bool:
    return f"{type(estimator).__module__}:{type(estimator).__qualname__}" in _REPLACED


def _has_it(estimator: Any) -> bool:
    from leakscope.leakage.regularized import LeakageRidge

    return type(estimator) is LeakageRidge


def _why_not_the_parameters(estimator: Any) -> str | None:
    """Only a number alpha carries over; other parameters that the user has set would be lost."""
    if _has_it(estimator):
        return None
    usual = type(estimator)().get_params()
    own = {name: value for name, value in estimator.get_params().items() if name != "alpha"}
    lost = sorted(name for name, value in own.items() if value is not usual[name] and value != usual[name])
    if lost:
        return f"the regression that takes its place has no parameter {', '.join(lost)}"
    alpha = getattr(estimator, "alpha", 0.0)
    return None if isinstance(alpha, int | float) else "alpha must be one number"


def _why_not_the_records(records: Records) -> str | None:
    from leakscope.leakage.regularized import MOST_FEATURES

    n_features = records.features[0].size
    if n_features > MOST_FEATURES:
        return f"it takes at most {MOST_FEATURES} features, and there are {n_features:,}"
    return None
