"""Defences that train in stages: targeted treatment and SELENA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from leakscope.defences.base import Defence
from leakscope.defences.registry import resolve_defence, strengths_of
from leakscope.defences.selena import Selena
from leakscope.defences.targeted import Targeted
from leakscope.engine.request import TrainingRequest, check_request
from leakscope.errors import InputError
from leakscope.recipe import Distillation, EstimatorRecipe, Recipe, Treatment
from leakscope.types import Design, Records

RECIPE = Recipe(epochs=8, weight_decay=0.1)
CLASSES = Records(
    np.zeros((4, 2), np.float32), np.arange(4) % 2, np.arange(4).astype(str), class_names=("a", "b")
)
NUMBERS = Records(np.zeros((4, 2), np.float32), np.arange(4, dtype=np.float32), np.arange(4).astype(str))


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("targeted", {"treatment": Treatment()}),
        ("targeted(share=0.1, how=down_weight)", {"treatment": Treatment("down_weight", share=0.1)}),
        ("targeted(choice=random)", {"treatment": Treatment(choice="random")}),
        ("selena", {"distillation": Distillation()}),
        ("selena(models=25, left_out=10)", {"distillation": Distillation(25, 10)}),
    ],
)
def test_a_defence_adds_its_stages_and_changes_nothing_else(text: str, change: dict[str, object]) -> None:
    defence = resolve_defence(text)
    assert resolve_defence(defence.label) == defence
    assert defence.recipe(RECIPE, CLASSES) == replace(RECIPE, **change)  # type: ignore[arg-type]
    assert defence.records(CLASSES) is CLASSES


def test_one_replaces_the_other() -> None:
    both = Selena().recipe(Targeted().recipe(RECIPE, CLASSES), CLASSES)
    assert both == Selena().recipe(RECIPE, CLASSES)
    assert Targeted().recipe(both, CLASSES) == Targeted().recipe(RECIPE, CLASSES)


@pytest.mark.parametrize("name", ["targeted", "selena"])
def test_strengths_are_recipes_of_their_own(name: str) -> None:
    recipes = {defence.recipe(RECIPE, CLASSES) for defence in strengths_of(name)}
    assert len(recipes) == 3


@pytest.mark.parametrize(
    ("defence", "recipe", "records", "reason"),
    [
        (Targeted(), RECIPE, CLASSES, None),
        (Targeted(), RECIPE, NUMBERS, None),
        (Targeted(), Recipe(epochs=1), CLASSES, "no early window"),
        (Selena(), RECIPE, CLASSES, None),
        (Selena(), RECIPE, NUMBERS, "no probabilities"),
        (Targeted(), EstimatorRecipe(DecisionTreeClassifier()), CLASSES, "training loop of a network"),
        (Selena(), EstimatorRecipe(DecisionTreeClassifier()), CLASSES, "training loop of a network"),
    ],
)
def test_where_they_cannot_protect_they_say_why(
    defence: Defence, recipe: Recipe | EstimatorRecipe, records: Records, reason: str | None
) -> None:
    found = defence.why_not(recipe, records)
    assert found is None if reason is None else reason in str(found)


def test_an_option_out_of_range_is_refused_with_the_recipe() -> None:
    with pytest.raises(InputError, match=r"share=0\.9"):
        Targeted(share=0.9).recipe(RECIPE, CLASSES)
    with pytest.raises(InputError, match="choice='listed'"):
        resolve_defence("targeted(choice=listed)")


def request(recipe: Recipe, records: Records = CLASSES) -> TrainingRequest:
    return TrainingRequest(records, Design(np.array([[True, True, False, True]])), recipe, 0, device="cpu")


def test_a_bank_of_other_stages_has_another_identity() -> None:
    stages: list[dict[str, Any]] = [
        {},
        {"treatment": Treatment()},
        {"treatment": Treatment(share=0.1)},
        {"treatment": Treatment(choice="listed", records=(1,))},
        {"treatment": Treatment(choice="listed", records=(3,))},
        {"distillation": Distillation(3, 1)},
    ]
    identities = {request(replace(RECIPE, **changes)).identity.sha256 for changes in stages}
    assert len(identities) == len(stages)


@pytest.mark.parametrize(
    ("recipe", "records", "problem"),
    [
        (Recipe(distillation=Distillation(2, 1)), NUMBERS, "distillation is for classification"),
        (Recipe(distillation=Distillation(4, 1)), CLASSES, "models=4: a model has only 3 members"),
        (Recipe(treatment=Treatment(choice="listed", records=(4,))), CLASSES, "the last record is 3"),
        (Recipe(treatment=Treatment(choice="listed", records=(0, 1, 3))), CLASSES, "would be flagged"),
    ],
)
def test_stages_that_do_not_fit_the_records_are_refused_before_training(
    recipe: Recipe, records: Records, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        check_request(request(recipe, records))
