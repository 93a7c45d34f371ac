"""The forests of the check for shift see about as much as those of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.evaluate.hygiene.forest import Fold, forest_probabilities
from leakscope.evaluate.hygiene.shift import ShiftTask, forest_scores
from leakscope.stats.roc import auc

N_TREES = 60
Features = Callable[[np.random.Generator, BoolArray], AnyArray]


def two_folds(n_records: int) -> list[Fold]:
    first = np.arange(n_records) % 4 < 2
    return [(np.flatnonzero(some), np.flatnonzero(~some)) for some in (first, ~first)]


def by_scikit_learn(x: AnyArray, is_member: BoolArray, seed: int) -> FloatArray:
    probabilities = np.empty(len(x))
    for fitted, scored in two_folds(len(x)):
        forest = ExtraTreesClassifier(N_TREES, min_samples_leaf=5, random_state=seed)
        forest.fit(x[fitted], is_member[fitted])
        probabilities[scored] = forest.predict_proba(x[scored])[:, 1]
    return probabilities


def numbers(rng: np.random.Generator, is_member: BoolArray) -> AnyArray:
    return rng.normal(size=(len(is_member), 6)) + 0.5 * is_member[:, None] * (np.arange(6) < 2)


def categories(rng: np.random.Generator, is_member: BoolArray) -> AnyArray:
    """One-hot columns, most of which are constant in a small node."""
    chosen = np.where(
        is_member & (rng.random(len(is_member)) < 0.2), 0, rng.integers(20, size=len(is_member))
    )
    return np.concatenate([np.eye(20)[chosen], np.eye(30)[rng.integers(30, size=len(is_member))]], axis=1)


@pytest.mark.parametrize("features", [numbers, categories])
def test_it_sees_what_scikit_learn_sees(features: Features) -> None:
    """On 12 other seeds, the AUC was 0.0055 lower at most, with a standard deviation of 0.0065.

    The mean over 4 seeds may be three of its standard deviations further away.
    """
    differences = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        is_member = rng.random(600) < 0.5
        x = features(rng, is_member).astype(np.float32)
        own = auc(forest_probabilities(x, is_member, two_folds(600), seed, N_TREES), is_member)
        assert own > 0.53
        differences.append(own - auc(by_scikit_learn(x, is_member, seed), is_member))
    assert np.mean(differences) == pytest.approx(0, abs=0.0055 + 3 * 0.0065 / 2)


def test_leaves_hold_at_least_five_records() -> None:
    """One feature that says everything: all but the leaf across the border are pure."""
    x = np.arange(400, dtype=np.float32)[:, None]
    is_member = np.arange(400) >= 200
    found = forest_probabilities(x, is_member, two_folds(400), 0, N_TREES)
    assert found[:180] == pytest.approx(0, abs=1e-12)
    assert found[220:] == pytest.approx(1, abs=1e-12)
    assert 0.2 < found[195:205].mean() < 0.8


@pytest.mark.parametrize("value", [0.0, -3e38, 3e38])
def test_constant_features_leave_the_share_of_members(value: float) -> None:
    is_member = np.arange(60) % 3 == 0
    x = np.full((60, 2), value, dtype=np.float32)
    found = forest_probabilities(x, is_member, two_folds(60), 0, 8)
    for fitted, scored in two_folds(60):
        assert found[scored] == pytest.approx(is_member[fitted].mean())


def test_features_as_far_apart_as_numbers_can_be_are_divided() -> None:
    x = np.where(np.arange(80) % 2 == 0, -3e38, 3e38).astype(np.float32)[:, None]
    is_member = np.arange(80) % 2 == 0
    found = forest_probabilities(x, is_member, two_folds(80), 0, 8)
    assert np.array_equal(found, is_member)


def test_records_of_a_unit_are_in_one_fold_and_folds_have_their_share_of_members() -> None:
    """A unit's own feature tells its members, but only to whoever was fitted on the unit."""
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(100), 4)
    is_member = (rng.random(100) < 0.5)[units]
    x = rng.normal(size=(100, 3))[units].astype(np.float32)
    scores = forest_scores(ShiftTask(x, is_member, units))
    apart = forest_scores(ShiftTask(x, is_member, np.arange(400)))
    assert auc(apart, is_member) > 0.9
    assert auc(scores, is_member) == pytest.approx(0.5, abs=0.15)
