"""Values in a recipe as JSON data: estimators by class and parameters, arrays by digest, code by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from leakscope.types import digest_arrays
from leakscope.user_code import path_of


def described(value: Any) -> Any:
    """JSON data in which different values differ. Not `repr`, which abbreviates long values."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.ndarray):
        return described(value.tolist()) if value.dtype.kind in "OT" else f"array {digest_arrays(value)}"
    if isinstance(value, Mapping):
        return {repr(key): described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if _is_estimator(value):
        parameters = {name: described(inner) for name, inner in _parameters(value).items()}
        return {"estimator": path_of(type(value)), "parameters": parameters}
    return repr(value) if isinstance(value, float | np.generic) else name_of(value)


def unfitted(value: Any) -> Any:
    """The value with each estimator in it replaced by all that a clone has: its class and parameters.

    An estimator that clones itself in its own way may stay fitted; its clone takes its place.
    """
    if _is_estimator(value):
        if has_own_clone(value):
            return value.__sklearn_clone__()
        return type(value), {name: unfitted(inner) for name, inner in _parameters(value).items()}
    if type(value) in (list, tuple):
        return type(value)(map(unfitted, value))
    return {key: unfitted(inner) for key, inner in value.items()} if type(value) is dict else value


def has_own_clone(estimator: Any) -> bool:
    """Whether `sklearn.base.clone` leaves it to the estimator, such as `FrozenEstimator`, to clone itself."""
    clone = getattr(estimator, "__sklearn_clone__", None)
    return clone is not None and clone.__module__ != "sklearn.base"


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


def _parameters(estimator: Any) -> dict[str, object]:
    parameters = estimator.get_params(deep=False)
    return {name: parameters[name] for name in sorted(parameters) if name != "random_state"}


def name_of(value: Any) -> str:
    """ "module:name" of a class or function, of the function of a partial, of the class of an object."""
    if isinstance(value, functools.partial):
        return name_of(value.func)
    return path_of(value if hasattr(value, "__qualname__") else type(value))
