"""Config files: what they become, and that every mistake in one is named at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from leakscope.audits.config import AuditConfig, read_config
from leakscope.audits.settings import AuditSettings
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Distillation, EstimatorRecipe, FunctionRecipe, Recipe, Treatment
from tests.train.test_functions import neighbours


def read(tmp_path: Path, content: str) -> AuditConfig:
    path = tmp_path / "config.toml"
    path.write_text(content, encoding="utf-8")
    return read_config(path)


def test_the_shortest_config_has_the_defaults_of_the_python_call(tmp_path: Path) -> None:
    config = read(tmp_path, "[data]\ndataset = 'digits'\n")
    assert config.recipe() == Recipe()
    assert config.settings == AuditSettings(config_text="[data]\ndataset = 'digits'\n")


def test_every_training_setting_reaches_the_recipe(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [data]
        dataset = "digits"
        [model]
        net = "cnn"
        options = {channels = 4}
        [training]
        optimizer = "sgd"
        lr = 0.5
        momentum = 0.9
        nesterov = true
        weight_decay = 0.01
        schedule = "step"
        step_epochs = [3, 6]
        step_factor = 0.3
        label_smoothing = 0.1
        batch_size = 7
        epochs = 9
        checkpoints = [1, 9]
        trainer = "serial"
        """,
    )
    assert config.recipe() == Recipe(
        net="cnn", net_options=(("channels", 4),), optimizer="sgd", lr=0.5, momentum=0.9, nesterov=True,
        weight_decay=0.01, schedule="step", step_epochs=(3, 6), step_factor=0.3, label_smoothing=0.1,
        batch_size=7, epochs=9, checkpoints=(1, 9), trainer="serial",
    )  # fmt: skip


def test_tables_inside_training_reach_the_recipe(tmp_path: Path) -> None:
    start = "[data]\ndataset = 'digits'\n[training]\nepochs = 8\n"
    treated = read(tmp_path, start + "[training.treatment]\nhow = 'down_weight'\nshare = 0.1\nepochs = 3\n")
    assert treated.recipe() == Recipe(epochs=8, treatment=Treatment("down_weight", share=0.1, epochs=3))
    listed = read(tmp_path, start + "treatment = {choice = 'listed', records = [3, 4]}")
    assert listed.recipe() == Recipe(epochs=8, treatment=Treatment(choice="listed", records=(3, 4)))
    distilled = read(tmp_path, start + "[training.distillation]\nmodels = 3\nleft_out = 1\n")
    assert distilled.recipe() == Recipe(epochs=8, distillation=Distillation(3, 1))


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("treatment = 3", "training.treatment=3: must be a table, written [training.treatment]"),
        ("treatment = {shar = 0.1}", "training.treatment.shar is not a known setting; did you mean 'share'?"),
        (
            "treatment = {how = 'hide'}",
            "training.treatment.how='hide': must be 'leave_out', 'down_weight' or 'clip_more'",
        ),
        ("treatment = {share = 2}", "training.treatment: share=2.0: must be above 0 and at most 0.5"),
        ("treatment = {share = 'x', weight = 'y'}", "training.treatment.weight='y'"),
        ("treatment = {epochs = 30}", "training: treatment: epochs=30: must be below the recipe's epochs=30"),
        ("distillation = {models = 2.5}", "training.distillation.models=2.5"),
        (
            "distillation = {models = 2, left_out = 2}",
            "training.distillation: left_out=2: must be at least 1",
        ),
    ],
)
def test_mistakes_in_tables_inside_training_are_named(tmp_path: Path, table: str, named: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, f"[data]\ndataset = 'digits'\n[training]\n{table}")
    assert named in str(error.value)


def test_an_estimator_is_made_with_its_options(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "[data]\ndataset = 'digits'\n[model]\nestimator = 'sklearn.ensemble:RandomForestClassifier'\n"
        "options = {n_estimators = 7}",
    )
    recipe = config.recipe()
    assert isinstance(recipe, EstimatorRecipe)
    assert isinstance(recipe.estimator, RandomForestClassifier)
    assert recipe.estimator.n_estimators == 7


def test_a_file_is_looked_up_beside_its_config_and_standardised(tmp_path: Path) -> None:
    (tmp_path / "Leute.csv").write_text("größe,ja,wer\n100,a,x\n200,b,y\n300,a,z\n")
    data = "[data]\nfile = 'Leute.csv'\nlabel = 'ja'\nid = 'wer'"
    records = read(tmp_path, data).records(None)
    assert records.features.mean() == pytest.approx(0, abs=1e-6)
    assert records.features.std() == pytest.approx(1, abs=1e-6)
    assert records.ids.tolist() == ["x", "y", "z"]
    as_is = read(tmp_path, f"{data}\nstandardise = false").records(None)
    np.testing.assert_array_equal(as_is.features[:, 0], [100, 200, 300])
    text = f"[data]\nfile = '{tmp_path / 'Leute.csv'}'\nlabel = 'ja'\nfeatures = ['größe']\ngroups = ['wer']"
    (tmp_path / "elsewhere").mkdir()
    grouped = read(tmp_path / "elsewhere", text).records(None)
    assert list(grouped.groups) == ["wer"]


def test_a_home_folder_is_meant_where_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "people.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "elsewhere").mkdir()
    records = read(tmp_path / "elsewhere", "[data]\nfile = '~/people.csv'\nlabel = 'y'").records(None)
    assert len(records) == 2


def test_options_of_a_dataset_reach_it(tmp_path: Path) -> None:
    config = read(tmp_path, "[data]\ndataset = 'gaussian'\noptions = {n_samples = 40, n_classes = 4}")
    records = config.records(None)
    assert (len(records), records.n_classes) == (40, 4)


def test_all_mistakes_of_all_sections_stand_in_one_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(
            tmp_path,
            """
            colour = "red"
            [data]
            dataset = "digits"
            file = "people.csv"
            [model]
            estimator = "sklearn.svm:SVC"
            net = "mlp"
            [training]
            lr = 0
            batch_size = 2.5
            optimizer = "magic"
            [population]
            models = 0
            design = "random"
            seed = -1
            [attacks]
            fpr = [-0.1]
            """,
        )
    message = str(error.value)
    assert str(tmp_path / "config.toml") in message
    assert "\n" not in message
    for named in (
        "colour is not a known setting",
        "give either `dataset` or `file`",
        "net would do nothing: give either `net` or `estimator`",
        "training: lr=0",
        "training.batch_size=2.5",
        "training.optimizer='magic': must be 'sgd', 'adam' or 'adamw'",
        "population.design='random': must be 'balanced', 'bernoulli' or 'pairs'",
        "models=0: must be at least 2",
        "seed=-1: must be 0 or more",
        "fpr=[-0.1]: must be rates above 0",
    ):
        assert named in message


@pytest.mark.parametrize(
    ("training", "named"),
    [
        ("optimizer = 'adam'\nmomentum = 0.9", "momentum and nesterov belong to optimizer='sgd'"),
        ("schedule = 'step'", "schedule='step' needs step_epochs"),
        ("checkpoints = [3, 2]", "checkpoints=[3, 2]"),
        (
            "[training.privacy]\nclip = 1.0",
            "training.privacy: give exactly one of epsilon and noise",
        ),
        ("[training.privacy]\nepsilon = 8\ndleta = 1e-6", "training.privacy.dleta is not a known setting"),
        ("[training.privacy]\nepsilon = '8'", "training.privacy.epsilon='8'"),
        ("[training.privacy]\nepsilon = 8\nviews = 4", "views are made by flips and crop"),
        ("sam_rho = 0.1\n[training.privacy]\nepsilon = 8", "privacy and sam_rho exclude each other"),
        ("privacy = 8", "training.privacy=8: must be a table"),
    ],
)
def test_settings_that_do_not_go_together_are_named(tmp_path: Path, training: str, named: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, f"[data]\ndataset = 'digits'\n[training]\n{training}")
    assert named in str(error.value)


def test_privacy_is_a_table_of_the_training(tmp_path: Path) -> None:
    text = "[data]\ndataset = 'digits'\n[training]\nlr = 0.5\n[training.privacy]\nepsilon = 8\nclip = 0.5"
    recipe = read(tmp_path, text).recipe()
    assert isinstance(recipe, Recipe)
    assert (recipe.lr, recipe.privacy) == (0.5, Privacy(epsilon=8.0, clip=0.5))


def test_bernoulli_takes_an_odd_number_of_models(tmp_path: Path) -> None:
    config = read(tmp_path, "[data]\ndataset = 'digits'\n[population]\nmodels = 3\ndesign = 'bernoulli'")
    assert config.settings.models == 3


@pytest.mark.parametrize(
    ("estimator", "named"),
    [
        ("sklearn.ensemble", "write for example 'sklearn.ensemble:RandomForestClassifier'"),
        ("nowhere:Thing", "No module named 'nowhere'"),
        (":Thing", "cannot be imported"),
    ],
)
def test_an_estimator_that_cannot_be_imported_is_named(tmp_path: Path, estimator: str, named: str) -> None:
    config = read(tmp_path, f"[data]\ndataset = 'digits'\n[model]\nestimator = '{estimator}'")
    with pytest.raises(InputError) as error:
        config.recipe()
    assert f"model.estimator={estimator!r}" in str(error.value)
    assert named in str(error.value)


def test_a_gate_has_the_limits_of_its_section(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "[data]\ndataset = 'digits'\n[gate]\nmax_auc = 0.6\nmax_tpr = [{ fpr = 0.001, tpr = 0.05 }]\n"
        "max_epsilon = 4\ndelta = 1e-6\nconfidence = 0.9",
    )
    assert config.settings.gate == Gate(
        max_auc=0.6, max_tpr=(TprLimit(0.001, 0.05),), max_epsilon=4, delta=1e-6, confidence=0.9
    )
    assert read(tmp_path, "[data]\ndataset = 'digits'").settings.gate is None


def test_a_training_function_is_imported(tmp_path: Path) -> None:
    start = "[data]\ndataset = 'digits'\n[model]\ntrain = "
    recipe = read(tmp_path, f"{start}'tests.train.test_functions:neighbours'").recipe()
    assert isinstance(recipe, FunctionRecipe)
    assert recipe.train is neighbours
    with pytest.raises(InputError, match=r"model\.train='nowhere:train' cannot be imported"):
        read(tmp_path, f"{start}'nowhere:train'").recipe()
    with pytest.raises(
        InputError, match=r"training would do nothing: model\.train has its own training settings"
    ):
        read(tmp_path, f"{start}'a:b'\n[training]\nepochs = 3")
    with pytest.raises(InputError, match="options would do nothing"):
        read(tmp_path, f"{start}'a:b'\noptions = {{ width = 3 }}")
