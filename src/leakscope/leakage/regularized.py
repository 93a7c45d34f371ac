"""Ridge regression whose weight is chosen against squared error plus leakage.

Farokhi and Kaafar (2020) propose leakage as a regularizer. Ridge regression is trained in closed form, so the
leakage of training with a given weight can be estimated by training on many halves of the members, with and
without a record (`leakage.bias.crossed`). The weight minimizes the squared error on the other halves plus
`strength` times the mean leakage of some members. (One weight per coefficient, as in `studies.leakage`, needs
records of its own to be chosen on: on the members themselves, it suits the noise of the estimate.)

The weight is chosen on the members, so the choice depends on them, too. An audit measures that as well: every
model, also each reference model, chooses its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from leakscope.array_types import FloatArray
from leakscope.errors import InputError
from leakscope.leakage.bias import crossed
from leakscope.leakage.gaussian import fit
from leakscope.leakage.regressions import draw_others, moment_sums, moment_table, ridge, training_loss

MOST_FEATURES = 30
"""Coefficients whose joint distribution a few hundred trainings can estimate."""
FEWEST_RECORDS = 20
_RECORDS, _FEWEST_TRAININGS = 32, 60
_TRAININGS_PER_COEFFICIENT = 6
_WEIGHTS = 2.0 ** np.arange(-12, 11)
_MOST_NATS = 1000.0  # what an infinite leakage counts as


class LeakageRidge(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge regression of standardized features, with a weight against leakage; a scikit-learn regressor.

    Args:
        alpha: as in `sklearn.linear_model.Ridge`; no smaller one is chosen.
        strength: of the leakage, in units of the variance of the labels per nat; 0: the weight is chosen for
            the error alone.
        random_state: seed of the halves on which the weight is chosen.
    """

    def __init__(self, alpha: float = 1.0, strength: float = 0.1, random_state: Any = None) -> None:
        self.alpha = alpha
        self.strength = strength
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> LeakageRidge:
        """Chooses the weight, and fits the coefficients on all records."""
        x, labels = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        _check(self, *x.shape)
        center, scale = x.mean(axis=0), _spread(x)
        label_center, label_scale = labels.mean(), float(_spread(labels[:, None])[0])
        table = moment_table((x - center) / scale, (labels - label_center) / label_scale)
        trainings = _trainings(table, x.shape[1], check_random_state(self.random_state))
        weight = _chosen(trainings, self.alpha / len(labels), self.strength)
        self.alpha_ = len(labels) * weight
        theta = ridge(table.sum(axis=0, keepdims=True), len(labels), _penalty(weight, x.shape[1]))[0]
        self.coef_ = label_scale * theta[1:] / scale
        self.intercept_ = float(label_center + label_scale * theta[0] - center @ self.coef_)
        return self

    def predict(self, X: Any) -> FloatArray:
        """The predicted labels."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float64, reset=False)
        predicted: FloatArray = x @ self.coef_ + self.intercept_
        return predicted


class _Trainings(NamedTuple):
    """Halves of the members, on which regressions are trained.

    Attributes:
        inside: float64 (records * trainings, entries), moments of halves with a record.
        outside: the same halves with another record in its place.
        rest: moments of the members that are not in `outside`.
        n_records: number of records.
        size: members in a half.
        n_rest: members in the rest.
        n_features: number of features.
    """

    inside: FloatArray
    outside: FloatArray
    rest: FloatArray
    n_records: int
    size: int
    n_rest: int
    n_features: int


def _trainings(table: FloatArray, n_features: int, random: np.random.RandomState) -> _Trainings:
    rng = np.random.default_rng(random.randint(2**31))
    n, size = len(table), len(table) // 2
    n_trainings = max(_FEWEST_TRAININGS, _TRAININGS_PER_COEFFICIENT * n_features)
    chosen = rng.choice(n, min(_RECORDS, n), replace=False)
    inside, outside = [], []
    for record in chosen.tolist():
        others = draw_others(rng, n, record, 2 * n_trainings, size)
        outside.append(moment_sums(table, others))
        inside.append(moment_sums(table, others[:, 1:]) + table[record])
    without = np.concatenate(outside)
    rest = table.sum(axis=0) - without
    return _Trainings(np.concatenate(inside), without, rest, len(chosen), size, n - size, n_features)


def _chosen(trainings: _Trainings, least: float, strength: float) -> float:
    """The weight that minimizes error plus leakage."""
    weights = np.maximum(_WEIGHTS, least)
    return float(min(weights, key=lambda weight: _objective(trainings, weight, strength)))


def _penalty(weight: float, n_features: int) -> FloatArray:
    """Of each coefficient; the intercept has none."""
    return np.array([0.0, *[weight] * n_features])


def _objective(trainings: _Trainings, weight: float, strength: float) -> float:
    penalty = _penalty(weight, trainings.n_features)
    outside = ridge(trainings.outside, trainings.size, penalty)
    error = float(training_loss(trainings.rest, trainings.n_rest, outside).mean())
    if strength == 0:
        return error
    inside = ridge(trainings.inside, trainings.size, penalty)
    halves = (trainings.n_records, 2, -1, len(penalty))
    leakage = crossed(fit(inside.reshape(halves)), fit(outside.reshape(halves))).corrected
    return error + strength * float(np.minimum(leakage, _MOST_NATS).mean())


def _check(estimator: LeakageRidge, n_records: int, n_features: int) -> None:
    for name in ("alpha", "strength"):
        value = getattr(estimator, name)
        if not 0 <= value < np.inf:
            raise InputError(f"LeakageRidge: {name}={value}: must be 0 or more")
    if n_features > MOST_FEATURES:
        raise InputError(f"LeakageRidge: {n_features:,} features; it takes at most {MOST_FEATURES}")
    if n_records < FEWEST_RECORDS:
        raise InputError(f"LeakageRidge: {n_records} records; it takes at least {FEWEST_RECORDS}")


def _spread(values: FloatArray) -> FloatArray:
    """Standard deviations of the columns; 1 where a column is constant."""
    spread: FloatArray = values.std(axis=0)
    return np.where(spread > 0, spread, 1.0)
