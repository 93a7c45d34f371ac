"""Defences of estimators: they strengthen what is there, and say why they do not apply."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from leakscope.defences.registry import defence_classes, resolve_defence, strengths_of
from leakscope.defences.settings import settings_of
from leakscope.recipe import EstimatorRecipe, Recipe
from leakscope.types import Records

OF_ESTIMATORS = ("leaf_size", "tree_depth", "pruning", "penalty", "fewer_rounds")


@pytest.fixture
def records() -> Records:
    features = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(np.int64)
    return Records(features, labels, np.arange(60).astype(str), "made up", {}, ("no", "yes"))


@pytest.mark.parametrize(
    ("defence", "estimator", "parameters"),
    [
        ("leaf_size(least=5)", RandomForestClassifier(), {"min_samples_leaf": 5}),
        ("leaf_size(least=5)", HistGradientBoostingClassifier(min_samples_leaf=2), {"min_samples_leaf": 5}),
        ("tree_depth(most=3)", RandomForestClassifier(max_depth=8), {"max_depth": 3}),
        ("pruning(threshold=0.01)", RandomForestClassifier(), {"ccp_alpha": 0.01}),
        ("penalty(factor=10)", LogisticRegression(C=2.0), {"C": 0.2}),
        ("penalty(factor=10)", SGDClassifier(alpha=0.001), {"alpha": 0.01}),
        ("fewer_rounds(share=0.1)", GradientBoostingClassifier(n_estimators=50), {"n_estimators": 5}),
        ("fewer_rounds(share=0.1)", HistGradientBoostingClassifier(), {"max_iter": 10}),
    ],
)
def test_a_defence_sets_its_parameter(
    defence: str, estimator: Any, parameters: dict[str, Any], records: Records
) -> None:
    before = EstimatorRecipe(estimator)
    chosen = resolve_defence(defence)
    assert chosen.why_not(before, records) is None
    after = chosen.recipe(before, records)
    assert isinstance(after, EstimatorRecipe)
    changed = {k: v for k, v in after.estimator.get_params().items() if before.estimator.get_params()[k] != v}
    assert changed == parameters
    assert tomllib.loads(settings_of(before, after)) == {"model": {"options": parameters}}


def test_an_estimator_within_a_pipeline_is_defended(records: Records) -> None:
    before = EstimatorRecipe(make_pipeline(StandardScaler(), LogisticRegression(C=1.0)))
    after = resolve_defence("penalty(factor=10)").recipe(before, records)
    assert isinstance(after, EstimatorRecipe)
    assert after.estimator.get_params()["logisticregression__C"] == 0.1
    assert before.estimator.get_params()["logisticregression__C"] == 1.0


@pytest.mark.parametrize(
    ("defence", "estimator", "reason"),
    [
        ("leaf_size(least=5)", RandomForestClassifier(min_samples_leaf=7), "min_samples_leaf is 7 already"),
        ("tree_depth(most=6)", RandomForestClassifier(max_depth=4), "max_depth is 4 already"),
        ("leaf_size", LogisticRegression(), "LogisticRegression has no parameter min_samples_leaf"),
        ("fewer_rounds", RandomForestClassifier(), "RandomForestClassifier has no rounds of boosting"),
        ("penalty", MultinomialNB(alpha=1.0), "neither C nor alpha is the strength of a penalty here"),
    ],
)
def test_a_defence_says_why_it_does_not_apply(
    defence: str, estimator: Any, reason: str, records: Records
) -> None:
    assert resolve_defence(defence).why_not(EstimatorRecipe(estimator), records) == reason


@pytest.mark.parametrize("name", OF_ESTIMATORS)
def test_networks_have_none_of_these(name: str, records: Records) -> None:
    assert all(one.why_not(Recipe(), records) for one in strengths_of(name))
    assert name in defence_classes()


@pytest.mark.parametrize("name", ("leaf_size", "tree_depth", "pruning"))
def test_a_defence_never_weakens_what_is_there(name: str, records: Records) -> None:
    strong = EstimatorRecipe(RandomForestClassifier(min_samples_leaf=90, max_depth=1, ccp_alpha=0.5))
    for defence in strengths_of(name):
        after = defence.recipe(strong, records)
        assert isinstance(after, EstimatorRecipe)
        assert after.estimator.get_params() == strong.estimator.get_params()
