"""What every defence promises: text, strengths, settings that reproduce it, and models that it changes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from leakscope.advice.config_file import with_settings
from leakscope.array_types import AnyArray
from leakscope.audits.config import read_config
from leakscope.defences.base import Defence
from leakscope.defences.registry import defence_classes, resolve_defence, strengths_of
from leakscope.defences.settings import settings_of
from leakscope.design import make_design
from leakscope.engine.request import TrainingRequest, check_request
from leakscope.engine.worker import Worker
from leakscope.errors import InputError
from leakscope.options import accepted_values
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.types import Records

SEED, N_MODELS = 3, 6
RECIPE = Recipe(
    net_options=(("width", 8),), optimizer="adam", lr=0.05, batch_size=8, epochs=8, checkpoints=(3, 8)
)
TREES = EstimatorRecipe(DecisionTreeClassifier())
_OF_TREES = "sklearn.tree:DecisionTreeClassifier"
ESTIMATORS = {
    "leaf_size": (TREES, _OF_TREES),
    "tree_depth": (TREES, _OF_TREES),
    "pruning": (TREES, _OF_TREES),
    "penalty": (EstimatorRecipe(LogisticRegression()), "sklearn.linear_model:LogisticRegression"),
    "leakage_penalty": (EstimatorRecipe(Ridge()), "sklearn.linear_model:Ridge"),
    "fewer_rounds": (
        EstimatorRecipe(GradientBoostingClassifier()),
        "sklearn.ensemble:GradientBoostingClassifier",
    ),
}
"""Defences of estimators: what they can protect, and its name."""
OF_NUMBERS = ("leakage_penalty",)
"""Defences of regressions alone."""
NUMBERS = dict.fromkeys(("penalty", "leakage_penalty"), EstimatorRecipe(Ridge())) | {
    name: EstimatorRecipe(DecisionTreeRegressor()) for name in ("leaf_size", "tree_depth", "pruning")
}
RELATIVE = ("early_stopping", "fewer_rounds", "penalty")
"""Defences that are a multiple of what is there."""
SIGNALS = ("correct", "log_odds", "logits", "loss")
SIGNALS_OF_NUMBERS = ("loss", "scaled_residual")
NAMES = sorted(defence_classes())


def a_function(records: Records, indices: AnyArray, seed: int) -> Any:
    """A training function of a user; nothing trains with it here."""
    raise AssertionError("it is not called")


def people(is_classification: bool = True) -> Records:
    """Three classes that overlap; every second record occurs twice."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    features = (rng.normal(size=(60, 4)) + labels[:, None]).astype(np.float32)
    again = np.arange(0, 60, 2)
    features, labels = np.concatenate([features, features[again]]), np.concatenate([labels, labels[again]])
    ids = np.array([f"p{i}" for i in range(len(labels))])
    if not is_classification:
        return Records(features, features.sum(axis=1), ids, name="numbers")
    return Records(features, labels, ids, name="people", class_names=("a", "b", "c"))


def protected(name: str) -> AnyRecipe:
    """A recipe that the defence can protect."""
    return ESTIMATORS[name][0] if name in ESTIMATORS else RECIPE


def people_for(name: str) -> Records:
    """Records that the defence can protect."""
    return people(is_classification=name not in OF_NUMBERS)


def defended(defence: Defence, recipe: AnyRecipe | None = None) -> tuple[AnyRecipe, Records, OutputFilter]:
    recipe, records = recipe or protected(defence.name), people_for(defence.name)
    return defence.recipe(recipe, records), defence.records(records), defence.outputs(NO_FILTER)


def trained(recipe: AnyRecipe, records: Records, outputs: OutputFilter) -> dict[str, AnyArray]:
    design = make_design("balanced", N_MODELS, len(records), SEED)
    signals = SIGNALS if records.is_classification else SIGNALS_OF_NUMBERS
    request = TrainingRequest(records, design, recipe, SEED, signals, "cpu", outputs=outputs)
    check_request(request)
    block = Worker(request, "cpu").train(np.arange(N_MODELS))
    assert (block.diverged_at == 0).all()
    return block.signals


@cache
def undefended(name: str) -> dict[str, AnyArray]:
    return trained(protected(name), people_for(name), NO_FILTER)


@pytest.mark.parametrize("name", NAMES)
class TestContract:
    def test_it_says_what_it_is(self, name: str) -> None:
        defence = defence_classes()[name]()
        assert defence.name == name and defence.source
        assert (type(defence).__doc__ or "").strip()

    def test_its_strengths_are_several_and_survive_as_text(self, name: str) -> None:
        strengths = strengths_of(name)
        assert len(strengths) >= 3 or defence_classes()[name].strengths == ({},)
        assert len(set(strengths)) == len(strengths)
        for defence in strengths:
            assert resolve_defence(defence.label) == defence
            assert defence.why_not(protected(name), people_for(name)) is None

    def test_it_changes_what_it_says(self, name: str) -> None:
        defence = strengths_of(name)[-1]
        recipe, records, outputs = defended(defence)
        assert (outputs != NO_FILTER) == ("outputs" in defence.changes)
        is_trained_otherwise = recipe.description() != protected(name).description()
        assert is_trained_otherwise == (defence.changes != "outputs")
        assert len(records) == len(people_for(name))
        assert (records.ids == people().ids).all()

    def test_it_can_be_applied_twice(self, name: str) -> None:
        """Applied to what has it already, it changes nothing, unless it is a multiple of what is there."""
        for defence in strengths_of(name):
            recipe, records, outputs = defended(defence)
            assert defence.outputs(outputs) == outputs
            if name not in RELATIVE and defence.why_not(recipe, records) is None:
                assert defence.recipe(recipe, records).description() == recipe.description()

    def test_its_settings_reproduce_it(self, name: str, tmp_path: Path) -> None:
        for defence in strengths_of(name):
            recipe, _, outputs = defended(defence)
            path = tmp_path / "config.toml"
            before = Recipe() if isinstance(recipe, Recipe) else protected(name)
            model = f"[model]\nestimator = '{ESTIMATORS[name][1]}'" if name in ESTIMATORS else ""
            text = settings_of(before, recipe, NO_FILTER, outputs)
            path.write_text(with_settings(f'[data]\ndataset = "digits"\n\n{model}\n', text))
            config = read_config(path)
            assert config.recipe().description() == recipe.description()
            assert config.outputs == outputs
            assert settings_of(protected(name), recipe, NO_FILTER, outputs), "something must be set"

    def test_models_with_it_have_finite_outputs(self, name: str) -> None:
        strengths = strengths_of(name)
        for values in trained(*defended(strengths[len(strengths) // 2])).values():
            assert np.isfinite(values).all()

    def test_the_strongest_setting_changes_the_models(self, name: str) -> None:
        if name == "pruning":
            pytest.skip("its thresholds are for trees of more records; test_estimators.py has them")
        found, plain = trained(*defended(strengths_of(name)[-1])), undefended(name)
        read = "scaled_residual" if name in OF_NUMBERS else "log_odds"
        last = [signals[read][:, -1] for signals in (found, plain)]
        is_changed = (np.abs(last[0] - last[1]) > 1e-3).mean(axis=1)
        least = 0.1 if name in ESTIMATORS else 0.5  # a tree that is cut still answers most queries alike
        assert (is_changed > least).all(), "every model answers queries differently"

    def test_it_knows_what_it_cannot_protect(self, name: str) -> None:
        """Estimators have outputs, and no training loop of ours; numbers have no probabilities."""
        defence = defence_classes()[name]()
        if defence.changes == "outputs":
            assert defence.why_not(TREES, people()) is None
            for values in trained(*defended(defence, TREES)).values():
                assert np.isfinite(values).all()
            assert defence.why_not(RECIPE, people(is_classification=False))
        elif name in ESTIMATORS:
            assert defence.why_not(RECIPE, people())
            assert name not in OF_NUMBERS or defence.why_not(protected(name), people())
        else:
            assert defence.why_not(TREES, people())

    def test_numbers_are_refused_or_trained(self, name: str) -> None:
        defence, records = strengths_of(name)[0], people(is_classification=False)
        if name == "fewer_rounds":
            pytest.skip("what is boosted makes no difference to it")
        before = NUMBERS.get(name, RECIPE)
        design = make_design("balanced", N_MODELS, len(records), SEED)
        recipe = defence.recipe(before, records)
        request = TrainingRequest(
            records, design, recipe, SEED, ("loss",), "cpu", outputs=defence.outputs(NO_FILTER)
        )
        if defence.why_not(before, records) is None:
            block = Worker(request, "cpu").train(np.arange(2))
            assert np.isfinite(block.signals["loss"]).all()
        elif name not in ESTIMATORS:  # an estimator would be fitted, if not as it should be
            with pytest.raises(InputError, match="numbers"):
                check_request(request)


def test_an_unknown_defence_or_option_is_named_with_the_closest() -> None:
    with pytest.raises(InputError, match="mixup"):
        resolve_defence("mixpu")
    with pytest.raises(InputError, match="unknown option beta; it takes alpha"):
        resolve_defence("mixup(beta=1)")


@pytest.mark.parametrize(
    "wrong",
    [
        "weight_decay(rate=-1)",
        "dropout(rate=1)",
        "early_stopping(share=0)",
        "early_stopping(share=1.5)",
        "label_smoothing(share=0)",
        "sam(rho=0)",
        "temperature(value=0.5)",
        "rounding(digits=0)",
        "rounding(digits=6)",
        "hamp(alpha=-1)",
        "mixup(alpha=0)",
        "relax_loss(target=0)",
        "hamp(gamma=1.0)",
        "hamp(gamma=0)",
        "targeted(share=0)",
        "leakage_penalty(strength=0)",
    ],
)
def test_an_option_out_of_range_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="must be"):
        resolve_defence(wrong)


def test_a_defence_weaker_than_the_recipe_does_not_weaken_it() -> None:
    strong = Recipe(weight_decay=1.0, label_smoothing=0.5, sam_rho=1.0, net_options=(("dropout", 0.9),))
    for name in ("weight_decay", "label_smoothing", "sam", "dropout"):
        assert strengths_of(name)[0].recipe(strong, people()) == strong
    assert resolve_defence("rounding(digits=3)").outputs(OutputFilter(digits=1)) == OutputFilter(digits=1)


@pytest.mark.parametrize("name", ["mixup", "hamp"])
def test_defences_that_exclude_each_other_say_so(name: str) -> None:
    relaxed = resolve_defence("relax_loss").recipe(RECIPE, people())
    assert "relax_loss" in (defence_classes()[name]().why_not(relaxed, people()) or "")
    softened = defence_classes()[name]().recipe(RECIPE, people())
    assert "labels of its own" in (resolve_defence("relax_loss").why_not(softened, people()) or "")


KINDS: dict[str, tuple[AnyRecipe, Records]] = {
    "network": (RECIPE, people()),
    "network, numbers": (RECIPE, people(is_classification=False)),
    "tree": (TREES, people()),
    "tree, numbers": (EstimatorRecipe(DecisionTreeRegressor()), people(is_classification=False)),
    "linear": (EstimatorRecipe(LogisticRegression()), people()),
    "linear, numbers": (EstimatorRecipe(Ridge()), people(is_classification=False)),
    "function": (FunctionRecipe(a_function), people()),
    "function, numbers": (FunctionRecipe(a_function), people(is_classification=False)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_protects_a_model_or_says_why_not_in_one_line(kind: str) -> None:
    """A reason is short enough to read in a table; nothing raises, and what applies can be trained."""
    recipe, records = KINDS[kind]
    for defence in (one for name in NAMES for one in strengths_of(name)):
        reason = defence.why_not(recipe, records)
        if reason is None:
            after = defence.recipe(recipe, records)
            design = make_design("balanced", N_MODELS, len(records), SEED)
            outputs = defence.outputs(NO_FILTER)
            check_request(TrainingRequest(records, design, after, SEED, ("loss",), "cpu", outputs=outputs))
            assert settings_of(recipe, after, NO_FILTER, outputs), f"{defence.label} must set something"
        else:
            assert 10 < len(reason) < 120 and "\n" not in reason, reason


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelt_option_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match=f"defence='{name}': unknown option strenght; it takes ") as refused:
        resolve_defence(f"{name}(strenght=1)")
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 160


@pytest.mark.parametrize("name", [name for name in NAMES if accepted_values(defence_classes()[name])])
def test_a_word_where_a_number_belongs_is_refused(name: str) -> None:
    option, *_ = accepted_values(defence_classes()[name])
    with pytest.raises(InputError, match=f"{option}='much'"):
        resolve_defence(f"{name}({option}=much)")


@pytest.mark.parametrize("first", NAMES)
def test_a_second_defence_works_or_says_why_not(first: str) -> None:
    recipe, records, outputs = defended(strengths_of(first)[-1])
    for second in (defence for name in NAMES for defence in strengths_of(name)):
        if second.why_not(recipe, records) is None:
            both = second.recipe(recipe, records)
            assert type(both) is type(recipe)
            second.outputs(outputs)


def test_no_loss_above_that_of_guessing_is_a_target() -> None:
    two = replace(people(), labels=people().labels % 2, class_names=("a", "b"))
    assert resolve_defence("relax_loss(target=1.0)").why_not(RECIPE, people()) is None
    assert resolve_defence("relax_loss(target=1.0)").why_not(RECIPE, two) == (
        "guessing has a loss of 0.69, and no model would be better"
    )


def test_dropout_needs_a_network_that_has_it() -> None:
    assert "has no option 'dropout'" in (
        resolve_defence("dropout").why_not(Recipe(net="linear"), people()) or ""
    )


def test_deduplication_needs_duplicates() -> None:
    once = people().take(np.arange(60))
    assert "no two records are equal" in (resolve_defence("deduplication").why_not(RECIPE, once) or "")


def test_early_stopping_keeps_the_checkpoints_that_are_left() -> None:
    shorter = resolve_defence("early_stopping(share=0.5)").recipe(RECIPE, people())
    assert isinstance(shorter, Recipe)
    assert (shorter.epochs, shorter.checkpoints) == (4, (3,))
    one = resolve_defence("early_stopping(share=0.01)").recipe(RECIPE, people())
    assert isinstance(one, Recipe)
    assert (one.epochs, one.checkpoints) == (1, ())
