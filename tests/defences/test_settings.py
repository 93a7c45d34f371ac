"""A change of a recipe, written as the tables of a config file, gives that recipe when the file is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

from leakscope.audits.config import read_config
from leakscope.defences.settings import settings_of
from leakscope.errors import InputError
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.signals.output_filter import NO_FILTER, OutputFilter

CHANGED = Recipe(
    net="wide_resnet",
    net_options=(("dropout", 0.3), ("widen", 4)),
    optimizer="sgd",
    lr=0.1,
    momentum=0.9,
    nesterov=True,
    sam_rho=0.05,
    weight_decay=5e-4,
    schedule="step",
    step_epochs=(30, 60),
    label_smoothing=1e-7,
    flips=True,
    crop=2,
    epochs=80,
    checkpoints=(1, 80),
)


def read(text: str, folder: Path) -> tuple[object, OutputFilter]:
    path = folder / "config.toml"
    path.write_text('[data]\ndataset = "digits"\n\n' + text)
    config = read_config(path)
    return config.recipe(), config.outputs


def test_every_field_is_written_as_the_config_reads_it(tmp_path: Path) -> None:
    outputs = OutputFilter(temperature=2.0, digits=2, top_1=True, random_values=True)
    text = settings_of(Recipe(), CHANGED, NO_FILTER, outputs)
    assert read(text, tmp_path) == (CHANGED, outputs)


def test_only_what_changes_is_written() -> None:
    stronger = replace(CHANGED, weight_decay=0.01, checkpoints=())
    assert settings_of(CHANGED, stronger) == "[training]\nweight_decay = 0.01\ncheckpoints = []\n"
    wider = replace(CHANGED, net_options=(("dropout", 0.3), ("widen", 8)))
    assert settings_of(CHANGED, wider) == "[model.options]\nwiden = 8\n"
    filtered = settings_of(CHANGED, CHANGED, OutputFilter(digits=3), OutputFilter(2.0, digits=3))
    assert filtered == "[outputs]\ntemperature = 2.0\n"


def test_nothing_is_written_where_nothing_changes() -> None:
    assert settings_of(CHANGED, CHANGED, NO_FILTER, OutputFilter()) == ""


def test_a_nested_dataclass_is_a_table_of_its_own() -> None:
    @dataclass(frozen=True)
    class Noise:
        epsilon: float | None = 8.0
        clip: float | None = None

    @dataclass(frozen=True)
    class Private(Recipe):
        noise: Noise | None = None

    text = settings_of(Private(), Private(epochs=3, noise=Noise()))
    assert text == "[training]\nepochs = 3\n\n[training.noise]\nepsilon = 8.0\n"


def test_parameters_of_an_estimator_are_options_of_the_model() -> None:
    before, after = (EstimatorRecipe(LogisticRegression(C=c)) for c in (1.0, 0.1))
    assert settings_of(before, after) == "[model.options]\nC = 0.1\n"
    with pytest.raises(InputError, match=r"model.options.C=.* cannot be written"):
        settings_of(before, EstimatorRecipe(LogisticRegression(C=LogisticRegression())))


def test_kinds_of_models_have_no_settings_between_them() -> None:
    with pytest.raises(InputError, match="different kinds of models"):
        settings_of(Recipe(), FunctionRecipe(read))
