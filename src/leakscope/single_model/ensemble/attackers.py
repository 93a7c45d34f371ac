"""Three classifiers that learn membership from features, each calibrated to a probability.

The attackers and their settings are those of a published coursework attack on a ResNet-18: a random forest,
LightGBM and a multi-layer perceptron, with isotonic calibration. The densities of the global likelihood ratio
and the feature scaling are fitted with the classifier, inside each fold of the calibration, so nothing that
contributes to a score has seen the membership it is evaluated on.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.single_model.ensemble.features import DEFAULT_READINGS, GlobalLira, confidence, features
from leakscope.single_model.results import Readings

CALIBRATION_FOLDS = 5
Calibration = Literal["isotonic", "sigmoid"]
_ONE = int(np.float64(2.0).view(np.int64))  # 1 + score, for a score of 1


@dataclass(frozen=True)
class ForestAttacker:
    """A random forest."""

    n_trees: int = 100
    max_depth: int = 15
    min_split: int = 5
    name: ClassVar[str] = "forest"

    def classifier(self, seed: int) -> Any:
        """The forest, on one thread: several sum the trees' votes in any order, which changes ties."""
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(
            self.n_trees,
            max_depth=self.max_depth,
            min_samples_split=self.min_split,
            random_state=seed,
            n_jobs=1,
        )


@dataclass(frozen=True)
class LightGbmAttacker:
    """Gradient-boosted trees (LightGBM)."""

    n_trees: int = 200
    max_depth: int = 15
    learning_rate: float = 0.05
    name: ClassVar[str] = "lightgbm"

    def classifier(self, seed: int) -> Any:
        """The boosted trees, on one thread: on busy cores LightGBM's threads wait for each other."""
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=self.n_trees,
            max_depth=self.max_depth,
            learning_rate=self.learning_rate,
            random_state=seed,
            deterministic=True,
            force_row_wise=True,
            n_jobs=1,
            verbose=-1,
        )


@dataclass(frozen=True)
class MlpAttacker:
    """A multi-layer perceptron."""

    hidden: tuple[int, ...] = (64, 32)
    max_iterations: int = 100
    name: ClassVar[str] = "mlp"

    def classifier(self, seed: int) -> Any:
        """The perceptron."""
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(self.hidden, max_iter=self.max_iterations, random_state=seed)


Attacker = ForestAttacker | LightGbmAttacker | MlpAttacker
ATTACKERS: tuple[Attacker, ...] = (ForestAttacker(), LightGbmAttacker(), MlpAttacker())
"""The three published attackers with their published settings."""


class MembershipScores(NamedTuple):
    """Scores of records, float64 (records,) each; higher means member."""

    score: FloatArray  # in [0, 1]: calibrated, with ties broken by the uncalibrated score
    calibrated: FloatArray
    uncalibrated: FloatArray


@dataclass(frozen=True, eq=False)
class FittedAttacker:
    """An attacker fitted on records of known membership."""

    model: Any
    stopped_early: bool  # the perceptron reached its iteration limit before it converged
    readings: Readings = DEFAULT_READINGS

    def scores(self, logits: AnyArray, labels: IntArray) -> MembershipScores:
        """How likely each record is a member, from the model's logits (records, classes) and the labels."""
        inputs = attacker_inputs(logits, labels, self.readings)
        with _one_thread_of_blas():
            calibrated = np.clip(self.model.predict_proba(inputs)[:, 1].astype(np.float64), 0, 1)
            every = self.model.calibrated_classifiers_
            folds = [fold.estimator.predict_proba(inputs)[:, 1] for fold in every]
        uncalibrated = np.asarray(np.mean(folds, axis=0, dtype=np.float64))
        return MembershipScores(break_ties(calibrated, uncalibrated), calibrated, uncalibrated)


def fit(
    attacker: Attacker,
    logits: AnyArray,
    labels: IntArray,
    is_member: BoolArray,
    seed: int,
    readings: Readings = DEFAULT_READINGS,
    calibration: Calibration = "isotonic",
) -> FittedAttacker:
    """Fits an attacker on the model's logits (records, classes) for records of known membership.

    There must be at least `CALIBRATION_FOLDS` members and as many non-members. The calibration does not
    change what the classifier itself learns.
    """
    folds = StratifiedKFold(CALIBRATION_FOLDS, shuffle=True, random_state=seed)
    learner = make_pipeline(_LiraColumn(), StandardScaler(), attacker.classifier(seed))
    model = CalibratedClassifierCV(learner, method=calibration, cv=folds)
    with _one_thread_of_blas(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(attacker_inputs(logits, labels, readings), is_member.astype(np.int64))
    stopped_early = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):  # the published settings cause it
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return FittedAttacker(model, stopped_early, readings)


def _one_thread_of_blas() -> Any:
    """Several threads add the terms of a product in another order, which changes the perceptron."""
    return threadpool_limits(1, user_api="blas")


def break_ties(calibrated: FloatArray, uncalibrated: FloatArray) -> FloatArray:
    """Scores in [0, 1] that order records by (calibrated, uncalibrated); equal pairs stay tied.

    Isotonic calibration is a step function: records with different scores can get the same calibrated score.
    A threshold takes all of them or none, which costs true positives at low false positive rates. No score
    moves by more than a rounding error (about 2e-16 per record).
    """
    order = np.lexsort((uncalibrated, calibrated))
    rises = (np.diff(calibrated[order]) > 0) | (np.diff(uncalibrated[order]) != 0)
    rank = np.concatenate([[0], np.cumsum(rises)])  # of each (calibrated, uncalibrated) pair
    steps = _lifted((1 + calibrated[order]).view(np.int64), rank)
    scores = np.empty(len(order))
    scores[order] = steps.view(np.float64) - 1
    return scores


def _lifted(steps: IntArray, rank: IntArray) -> IntArray:
    """The smallest increasing steps at or above the given ones, capped at 1; equal only at equal rank.

    A positive float64 read as an integer counts the numbers below it, so one step is one rounding error.
    """
    lifted = rank + np.maximum.accumulate(steps - rank)
    return np.asarray(np.minimum(lifted, _ONE - (rank[-1] - rank)))


def attacker_inputs(logits: AnyArray, labels: IntArray, readings: Readings = DEFAULT_READINGS) -> FloatArray:
    """The ten features, then the confidence from which the global likelihood ratio is computed."""
    columns = features(logits, labels, readings).values()
    return np.column_stack([*columns, confidence(logits, labels, readings)])


class _LiraColumn(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns the last column, the confidence, into the global likelihood ratio of the training records."""

    def fit(self, inputs: FloatArray, is_member: IntArray) -> _LiraColumn:
        """Fits the two densities."""
        self.lira_ = GlobalLira.fit(inputs[:, -1], is_member == 1)
        return self

    def transform(self, inputs: FloatArray) -> FloatArray:
        """The same features with the ratio in the last column."""
        return np.column_stack([inputs[:, :-1], self.lira_.score(inputs[:, -1])])
