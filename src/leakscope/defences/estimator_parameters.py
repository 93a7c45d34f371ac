"""Parameters of scikit-learn estimators, also of those inside a pipeline, for defences that change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakscope.recipe import AnyRecipe, EstimatorRecipe

_LINEAR = ("sklearn.linear_model", "sklearn.svm", "sklearn.neural_network")


def parameters_named(recipe: AnyRecipe, name: str, modules: tuple[str, ...] = ()) -> dict[str, Any]:
    """Full name -> value of every parameter with this name, as `set_params` takes it.

    Args:
        recipe: any recipe; only those of estimators have parameters.
        name: of the parameter.
        modules: the estimators that count, by the beginning of their module; empty: all.
    """
    if not isinstance(recipe, EstimatorRecipe):
        return {}
    own = recipe.estimator.get_params(deep=True)
    found = {key: value for key, value in own.items() if key.rpartition("__")[2] == name}
    return {key: value for key, value in found.items() if _counts(recipe.estimator, own, key, modules)}


def with_parameters(recipe: AnyRecipe, values: Mapping[str, Any]) -> EstimatorRecipe:
    """The recipe with other values of some parameters; the estimator of the user stays as it is."""
    from sklearn.base import clone

    assert isinstance(recipe, EstimatorRecipe)
    return EstimatorRecipe(clone(recipe.estimator).set_params(**values), recipe.processes)


def why_no_parameter(recipe: AnyRecipe, *names: str) -> str | None:
    """The reason of defences that act on these parameters; None where the estimator has one of them."""
    if not isinstance(recipe, EstimatorRecipe):
        return "it acts on the parameters of a scikit-learn estimator"
    if any(parameters_named(recipe, name) for name in names):
        return None
    return f"{type(recipe.estimator).__name__} has no parameter {' or '.join(names)}"


def penalties(recipe: AnyRecipe) -> tuple[dict[str, float], dict[str, float]]:
    """Numbers called C, which a stronger penalty lowers, and alpha, which it raises, of linear models."""
    of_c, of_alpha = (parameters_named(recipe, name, _LINEAR) for name in ("C", "alpha"))
    return _numbers(of_c), _numbers(of_alpha)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    numbers = {k: v for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    return {name: float(value) for name, value in numbers.items() if value > 0}


def _counts(estimator: Any, own: Mapping[str, Any], key: str, modules: tuple[str, ...]) -> bool:
    parent = key.rpartition("__")[0]
    owner = own[parent] if parent else estimator
    return not modules or type(owner).__module__.startswith(modules)
