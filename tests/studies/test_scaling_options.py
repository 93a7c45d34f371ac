"""Other datasets and other attack classifiers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from leakscope.data.registry import load
from leakscope.errors import InputError
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import page
from leakscope.studies.scaling.config import PRESETS, ScalingConfig
from leakscope.studies.scaling.config import recipe as published_recipe
from leakscope.studies.scaling.population import population, roles
from leakscope.studies.scaling.study import run
from leakscope.types import Records
from tests.cli.command import run_command

SIZES = ("--widths", "4,6", "--n-repeats", "2", "--n-shadow", "2", "--n-reference", "2", "--n-samples", "60",
         "--n-initializations", "1", "--no-published-seeds")  # fmt: skip


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "write_report", lambda *_: None)
    monkeypatch.setattr(scaling_judge, "_N_DRAWS", 50)


def shallow_tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=2, random_state=0)


def no_classifier() -> object:
    return object()


def two_classes() -> Records:
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    features = (rng.normal(size=(200, 3)) + labels[:, None]).astype(np.float32)
    ids = np.array([f"r{i}" for i in range(200)])
    return Records(features, labels, ids, "mine", class_names=("no", "yes"))


@pytest.mark.parametrize("attacker", ["forest", "mlp", f"{__name__}:shallow_tree"])
def test_any_classifier_attacks(tmp_path: Path, quick: None, attacker: str) -> None:
    done = run_command(
        "study", "scaling", *SIZES, "--attacker", attacker, "--json", "--out", tmp_path / "run"
    )
    assert (done.exit_code, done.err) == (0, "")
    printed = json.loads(done.out)
    assert printed["config"]["attacker"] == attacker
    logistic = run_command("study", "scaling", *SIZES, "--json", "--out", tmp_path / "other")
    aucs = [[row["mean_attack_auc"] for row in r["results"]] for r in (printed, json.loads(logistic.out))]
    assert aucs[0] != aucs[1]


@pytest.mark.parametrize(
    ("attacker", "message"),
    [
        ("svm", "attacker='svm': choose logistic, forest, mlp"),
        (f"{__name__}:no_classifier", "has no fit and predict_proba"),
        ("nowhere:factory", "cannot be imported"),
    ],
)
def test_what_is_no_classifier_is_refused_before_anything_is_trained(
    tmp_path: Path, attacker: str, message: str
) -> None:
    done = run_command("study", "scaling", *SIZES, "--attacker", attacker, "--out", tmp_path / "run")
    assert done.exit_code == 2 and message in done.err
    assert not (tmp_path / "run").exists()


def test_target_and_shadow_models_have_no_record_in_common() -> None:
    source = load("digits")
    for target_data in ("fixed", "redrawn"):
        config = ScalingConfig(dataset="digits", n_samples=300, target_data=target_data).for_dataset(source)
        records, design = population(config, source)
        assert design.columns is not None
        rows = {features.tobytes(): i for i, features in enumerate(source.features)}
        used = np.array([rows[features.tobytes()] for features in records.features])
        for repeat, shadows in enumerate(roles(config).shadows):
            target = set(used[design.columns[roles(config).targets[repeat]]])
            assert len(target) == 300
            for shadow in shadows:
                assert target.isdisjoint(used[design.columns[shadow]])


@pytest.mark.parametrize(("dataset", "inputs"), [("digits", (64, 10)), (f"{__name__}:two_classes", (3, 2))])
def test_a_dataset_brings_its_own_sizes(
    tmp_path: Path, quick: None, dataset: str, inputs: tuple[int, int]
) -> None:
    done = run_command("study", "scaling", *SIZES, "--dataset", dataset, "--json", "--out", tmp_path / "run")
    assert (done.exit_code, done.err) == (0, "")
    printed = json.loads(done.out)
    config = printed["config"]
    assert (config["n_features"], config["n_classes"], config["shadow_data"]) == (*inputs, "same")
    assert printed["results"][0]["n_params"] == 4 * (inputs[0] + 1) + inputs[1] * 5
    again = run_command(
        "study", "scaling", *SIZES, "--dataset", dataset, "--quiet", "--out", tmp_path / "run"
    )
    assert again.exit_code == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_samples": 1000}, "digits has 1,797; give at most 898"),
        ({"n_features": 12}, "n_features=12, but digits has 64; leave it out"),
        ({"dataset": "digitz"}, "unknown dataset 'digitz'"),
    ],
)
def test_a_dataset_that_does_not_fit_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    config = ScalingConfig(**{"dataset": "digits", **changes})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_variance_reaches_the_records() -> None:
    wide, narrow = (population(ScalingConfig(class_sd=sd))[0].features for sd in (1.5, 0.5))
    assert wide.std() > 1.3 * narrow.std()


def test_the_presets_train_what_they_say() -> None:
    assert PRESETS["published"].n_models == 5 * 3 * (20 + 39 * 4 + 4)
    assert PRESETS["wide"].n_models == 22 * 3 * (20 + 39 * 4 + 4)
    assert PRESETS["decisive"].n_models == 22 * 60 * 20


def test_regularization_reaches_the_recipe_and_changes_the_models(tmp_path: Path, quick: None) -> None:
    plain = ScalingConfig(hidden_widths=(8,), n_repeats=1, n_shadow=1, n_reference=0, n_samples=60)
    assert plain.recipe(8) == published_recipe(8)
    gaps = [run(plain, tmp_path / "plain").results[0].mean_train_acc]
    for name, strength in (("dropout", 0.5), ("weight_decay", 0.3)):
        config = replace(plain, **{name: strength})
        recipe = config.recipe(8)
        assert (dict(recipe.net_options).get("dropout", 0), recipe.weight_decay) == (
            config.dropout,
            config.weight_decay,
        )
        gaps.append(run(config, tmp_path / name).results[0].mean_train_acc)
    assert min(gaps[0] - gap for gap in gaps[1:]) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dropout", "1", "--no-published-seeds"), "dropout=1.0: must be at least 0 and below 1"),
        (("--weight-decay", "-1", "--no-published-seeds"), "weight_decay=-1.0: must be at least 0"),
        (("--dropout", "0.5"), "add --no-published-seeds"),
    ],
)
def test_regularization_that_cannot_be_is_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run_command("study", "scaling", *options, "--out", tmp_path / "run")
    assert done.exit_code == 2 and message in done.err and not (tmp_path / "run").exists()
