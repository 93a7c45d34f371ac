"""One estimator with scikit-learn's methods, fitted on the members of one model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.code_identity.description import described, has_own_clone
from leakscope.errors import InputError, LeakscopeError, TrainingError, UntrainableError, first_line
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import EstimatorRecipe
from leakscope.signals.probabilities import log_probabilities
from leakscope.train.plan import rows_of
from leakscope.types import Design, Records

Predict = Callable[[Any], AnyArray]
"""Features (records, ...), or rows of a table -> outputs float32 (records, outputs)."""

_ENCODE = (
    "encode text columns in a Pipeline; standardise = true in the [data] of a config file encodes them, too"
)
_REMEDIES = {
    "unknown categor": "a random half lacks some categories: set handle_unknown='ignore' in the encoder",
    "contains NaN": "impute missing values in a Pipeline, or choose an estimator that accepts them",
    "convert string to float": _ENCODE,
    "must be int, float": _ENCODE,  # XGBoost and LightGBM
}
_LASTING = (ValueError, TypeError, LookupError, AttributeError)
"""What an estimator raises that cannot use its records or parameters; memory or a disk may be free later."""
_SEEDS = ("random_state", "random_seed")  # the latter is CatBoost's


def check_estimator(recipe: EstimatorRecipe, records: Records) -> None:
    """Refuses an estimator that no model can be made of.

    Raises:
        InputError: it cannot be cloned or seeded, or predicts something else than the labels are.
    """
    _seed(_clone(recipe, records), 0)


def fitted_estimator(
    recipe: EstimatorRecipe, records: Records, design: Design, seed: int, model: int
) -> Predict:
    """One fitted estimator, seeded for this model."""
    fitted, name = _clone(recipe, records), type(recipe.estimator).__name__
    own_seed = seed_integer(seed, model, Purpose.ESTIMATOR, bits=31)
    _seed(fitted, own_seed)
    members = rows_of(design, model, records.copies)
    labels = records.labels[members]
    present = np.unique(labels)
    if records.is_classification:  # numbered without gaps, which some libraries require
        labels = np.searchsorted(present, labels)
    if records.frame is None:
        rows = records.features.reshape(len(records), -1)[members]
    else:
        rows = records.frame.rows(members)
    with _errors(model, name, "fit"):
        fitted.fit(rows, labels)

    def predict(features: Any) -> AnyArray:
        flat = features.reshape(len(features), -1) if records.frame is None else features
        with _errors(model, name, "predict"):
            if not records.is_classification:
                return np.asarray(fitted.predict(flat), dtype=np.float32).reshape(-1, 1)
            return _class_logits(fitted, flat, present, records.n_classes)

    return predict


def _clone(recipe: EstimatorRecipe, records: Records) -> Any:
    """An unfitted copy of the estimator, of the kind that the labels need."""
    from sklearn.base import is_classifier

    name = type(recipe.estimator).__name__
    try:
        copy = _unfitted_copy(recipe.estimator)
        is_for_classes = is_classifier(copy)
    except Exception as error:  # an estimator's own code may raise anything
        raise InputError(
            f"estimator={name} cannot be cloned ({first_line(error)}); give an estimator whose __init__ "
            "stores its parameters as they are, or a training function (leakscope.FunctionRecipe)"
        ) from error
    if is_for_classes != records.is_classification:
        wanted = "a classifier" if records.is_classification else "a regressor"
        labels = "class indices" if records.is_classification else "real numbers"
        raise InputError(f"estimator={name}: the labels of {records.name} are {labels}; give {wanted}")
    return copy


def _unfitted_copy(estimator: Any) -> Any:
    """A clone; also of estimators that store equal parameters instead of the same, as CatBoost does."""
    from sklearn.base import clone

    try:
        return clone(estimator)
    except RuntimeError:
        copy = _rebuilt(estimator)
        if described(copy) != described(estimator):
            raise
        return copy


def _rebuilt(value: Any) -> Any:
    """The value with every estimator in it made anew from its parameters."""
    if _is_estimator(value):
        if has_own_clone(value):
            return value.__sklearn_clone__()
        return type(value)(**{name: _rebuilt(inner) for name, inner in value.get_params(deep=False).items()})
    if type(value) in (list, tuple):
        return type(value)(map(_rebuilt, value))
    return deepcopy(value)


def _seed(estimator: Any, seed: int) -> None:
    """Sets every parameter that seeds it or an estimator in it."""
    names: list[str] = []
    try:
        names += _seed_parameters(estimator)
        if names:
            estimator.set_params(**dict.fromkeys(names, seed))
    except Exception as error:  # an estimator's own code may raise anything
        raise InputError(
            f"estimator={type(estimator).__name__}: {', '.join(names) or 'its seeds'} cannot be set "
            f"({first_line(error)}); give an estimator whose set_params takes what its get_params names"
        ) from error


def _seed_parameters(estimator: Any) -> list[str]:
    """Names of all parameters that seed it or an estimator in it, also where they were not set."""
    inner = {f"{name}__": value for name, value in estimator.get_params().items() if _is_estimator(value)}
    parts = {"": estimator, **inner}
    frozen = tuple(prefix for prefix, part in parts.items() if _is_its_own_clone(part))
    names = [name for name in estimator.get_params() if name.endswith("__random_state")]
    for prefix, part in parts.items():
        own = part.get_params(deep=False)
        accepted = [*own, *inspect.signature(type(part).__init__).parameters]
        seeds = [seed for seed in _SEEDS if seed in own] or [seed for seed in _SEEDS if seed in accepted]
        names += [f"{prefix}{seed}" for seed in seeds[:1]]
    return [name for name in dict.fromkeys(names) if not name.startswith(frozen)]


def _is_its_own_clone(estimator: Any) -> bool:
    """True for one that no model fits, such as scikit-learn's `FrozenEstimator`."""
    return has_own_clone(estimator) and estimator.__sklearn_clone__() is estimator


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


@contextmanager
def _errors(model: int, name: str, step: str) -> Iterator[None]:
    """Turns whatever an estimator raises into one line with a remedy where one is known."""
    try:
        yield
    except LeakscopeError:
        raise
    except Exception as error:  # an estimator's own code may raise anything
        remedy = next((f"; {text}" for part, text in _REMEDIES.items() if part in str(error)), "")
        is_lasting = bool(remedy) or isinstance(error, _LASTING)
        kind = UntrainableError if is_lasting else TrainingError
        raise kind(f"model {model}: {name} failed to {step}: {first_line(error)}{remedy}") from error


def _class_logits(fitted: Any, rows: Any, present: IntArray, n_classes: int) -> AnyArray:
    """Log-probabilities (floored) over all classes, also those the model never saw."""
    classes = np.asarray(getattr(fitted, "classes_", np.arange(len(present))), dtype=np.int64)
    if hasattr(fitted, "predict_proba"):
        predicted = np.asarray(fitted.predict_proba(rows), dtype=np.float64)
    else:
        labels = np.asarray(fitted.predict(rows)).reshape(-1)
        predicted = (labels[:, None] == classes[None]).astype(np.float64)
    if predicted.shape != (rows.shape[0], len(classes)):
        raise UntrainableError(
            f"{type(fitted).__name__} returned shape {predicted.shape} for {rows.shape[0]} records and "
            f"{len(classes)} classes; return one probability per record and class"
        )
    probability = np.zeros((len(predicted), n_classes))
    probability[:, present[classes]] = predicted
    return log_probabilities(probability)
