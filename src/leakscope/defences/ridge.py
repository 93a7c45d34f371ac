"""Ridge: penalizes the squared coefficients of a linear model of scikit-learn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from leakscope.defences.base import Defence
from leakscope.recipe import AnyRecipe, EstimatorRecipe
from leakscope.types import Records

_PENALIZED = ("Ridge", "RidgeClassifier", "LogisticRegression")


@dataclass(frozen=True)
class Ridge(Defence):
    """A larger penalty of the squared coefficients of `Ridge`, `RidgeClassifier` or `LogisticRegression`.

    Attributes:
        weight: of the penalty: `alpha` of the first two, `1 / C` of the last.
    """

    weight: float = 100.0

    name = "ridge"
    changes = "recipe"
    strengths = ({"weight": 10.0}, {"weight": 100.0}, {"weight": 1000.0})
    source = "Hoerl and Kennard 1970"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("weight", 0 < self.weight < math.inf, "above 0")

    def why_not(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only these estimators have it."""
        estimator = recipe.estimator if isinstance(recipe, EstimatorRecipe) else None
        if not _is_penalized(estimator):
            return f"it is for scikit-learn's {', '.join(_PENALIZED)}; networks have weight_decay"
        has_other_penalty = not _takes_alpha(estimator) and not _is_squared(estimator)
        return "the penalty is not of squared coefficients" if has_other_penalty else None

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this weight, or its own if that is larger."""
        from sklearn.base import clone

        assert isinstance(recipe, EstimatorRecipe)
        estimator = clone(recipe.estimator)
        if _takes_alpha(estimator):
            estimator.set_params(alpha=max(self.weight, estimator.alpha))
        else:
            estimator.set_params(C=min(1 / self.weight, estimator.C))
        return replace(recipe, estimator=estimator)


def _is_penalized(estimator: Any) -> bool:
    from sklearn import linear_model

    return type(estimator) in [getattr(linear_model, name) for name in _PENALIZED]


def _takes_alpha(estimator: Any) -> bool:
    return "alpha" in estimator.get_params()


def _is_squared(estimator: Any) -> bool:
    """Whether a logistic regression penalizes squares alone; versions of scikit-learn say it in two ways."""
    parameters = estimator.get_params()
    return parameters.get("penalty") in ("l2", "deprecated") and not parameters.get("l1_ratio")
