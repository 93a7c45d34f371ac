"""Any scikit-learn classifier or regressor, one model per task, in worker processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import InputError, TrainingError
from leakscope.randomness import Purpose, seed_integer
from leakscope.recipe import EstimatorRecipe
from leakscope.signals.probabilities import log_probabilities
from leakscope.train.loop import BlockSignals, Progress, signals_of_outputs
from leakscope.types import Design, Records


def fit_block(
    records: Records,
    design: Design,
    recipe: EstimatorRecipe,
    models: IntArray,
    seed: int,
    signal_names: tuple[str, ...],
    progress: Progress = lambda _: None,
) -> BlockSignals:
    """Fits the models of one block and evaluates them on their records."""
    from joblib import Parallel, delayed

    _check_task(recipe.estimator, records)
    x = records.features.reshape(len(records), -1)
    tasks = (
        delayed(_fit_and_evaluate)(recipe.estimator, x, records.labels, records.n_classes, design.members(m),
                              None if design.columns is None else design.columns[m], seed, m)
        for m in models.tolist()
    )  # fmt: skip
    outputs = []
    for output in Parallel(n_jobs=recipe.processes or -1, return_as="generator")(tasks):
        outputs.append(output)
        progress(1)
    labels = _queried_labels(records.labels, design, models)
    return signals_of_outputs(np.stack(outputs), labels, design.in_mask[models], signal_names, "estimators")


def _check_task(estimator: Any, records: Records) -> None:
    from sklearn.base import is_classifier

    if is_classifier(estimator) != records.is_classification:
        wanted = "a classifier" if records.is_classification else "a regressor"
        labels = "class indices" if records.is_classification else "real numbers"
        raise InputError(
            f"estimator={type(estimator).__name__}: the labels of {records.name} are {labels}; give {wanted}"
        )


def _queried_labels(labels: AnyArray, design: Design, models: IntArray) -> AnyArray:
    if design.columns is None:
        return np.broadcast_to(labels, (len(models), len(labels))).copy()
    return labels[design.columns[models]]


def _fit_and_evaluate(
    estimator: Any,
    x: AnyArray,
    labels: AnyArray,
    n_classes: int,
    members: IntArray,
    columns: IntArray | None,
    seed: int,
    model: int,
) -> AnyArray:
    """One fitted model's outputs on its columns; float32 (columns, outputs)."""
    from sklearn.base import clone, is_classifier

    fitted = clone(estimator)
    names = [n for n in fitted.get_params() if n == "random_state" or n.endswith("__random_state")]
    fitted.set_params(**dict.fromkeys(names, seed_integer(seed, model, Purpose.ESTIMATOR, bits=31)))
    try:
        fitted.fit(x[members], labels[members])
    except ValueError as error:
        raise TrainingError(f"model {model}: {type(estimator).__name__} failed to fit: {error}") from error
    queried = x if columns is None else x[columns]
    if not is_classifier(fitted):
        return np.asarray(fitted.predict(queried), dtype=np.float32).reshape(len(queried), 1)
    return _class_logits(fitted, queried, n_classes)


def _class_logits(fitted: Any, x: AnyArray, n_classes: int) -> AnyArray:
    """Log-probabilities (floored) over all classes, also those the model never saw."""
    if hasattr(fitted, "predict_proba"):
        predicted = np.asarray(fitted.predict_proba(x))
    else:
        predicted = (fitted.predict(x)[:, None] == fitted.classes_[None]).astype(np.float64)
    probability = np.zeros((len(x), n_classes))
    probability[:, np.asarray(fitted.classes_, dtype=np.int64)] = predicted
    return log_probabilities(probability)
