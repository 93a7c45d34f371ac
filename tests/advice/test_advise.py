"""Advice from end to end: it tries, pairs, recommends, and promises what the recommended config keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakscope
from leakscope.advice.advise import Advice, AdviceOptions, advise
from leakscope.advice.candidates import candidates
from leakscope.advice.sentences import summary
from leakscope.audits.config import read_config
from leakscope.audits.population import TrainedPopulation
from leakscope.bank.bank import Bank
from leakscope.defences.base import Defence
from leakscope.defences.estimator_parameters import with_parameters
from leakscope.defences.leaf_size import LeafSize
from leakscope.disclosure import Disclosure
from leakscope.errors import BankMismatchError, InputError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, Recipe
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.verification import verify_run
from leakscope.types import Records
from tests.cli.command import run_command
from tests.made_up_audits import made_up_audit, quick_single_records
from tests.quick_audits import quick_audits, short_trials

N = 200
OPTIONS = AdviceOptions(minutes=60, accepted_loss=0.1)
CONFIG = """
[data]
file = "people.csv"
label = "y"

[model]
estimator = "sklearn.tree:DecisionTreeClassifier"

[population]
models = 8

[attacks]
names = ["loss", "lira"]
"""


@dataclass(frozen=True)
class Useless(Defence):
    """Changes a parameter that no tree reads after it was fitted as before."""

    least: int = 3

    name = "useless"
    changes = "recipe"
    strengths = ({"least": 3},)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        return with_parameters(recipe, {"min_impurity_decrease": 1e-12})


def write_table(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, 4)).round(3)
    labels = np.where(features[:, 0] + rng.normal(0, 1.0, N) > 0, "yes", "no")
    rows = [",".join([*map(str, row), label]) for row, label in zip(features, labels, strict=True)]
    (folder / "people.csv").write_text("\n".join(["a,b,c,d,y", *rows]) + "\n")
    (folder / "my.toml").write_text(CONFIG)
    return folder / "my.toml"


@contextmanager
def quick_advice() -> Iterator[None]:
    """A defence that helps and one that does nothing, tried briefly."""
    classes: dict[str, type[Defence]] = {"leaf_size": LeafSize, "useless": Useless}
    with pytest.MonkeyPatch.context() as patch, quick_single_records(), quick_audits():
        short_trials(patch)
        patch.setattr("leakscope.advice.candidates.defence_classes", lambda: classes)
        patch.setattr("leakscope.advice.candidates.strengths_of", lambda name: strengths(classes[name]))
        patch.setattr("leakscope.advice.advise.resolve_defence", lambda label: by_label(classes)[label])
        yield


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Advice]:
    folder = tmp_path_factory.mktemp("advised")
    config = write_table(folder)
    with quick_advice():
        return config, advise(config, out=folder / "runs" / "advice", options=OPTIONS)


def strengths(cls: type[Defence]) -> tuple[Defence, ...]:
    return tuple(cls(**options) for options in cls.strengths[:1])


def by_label(classes: dict[str, type[Defence]]) -> dict[str, Defence]:
    return {one.label: one for cls in classes.values() for one in strengths(cls)}


def test_leaves_of_several_records_are_recommended(advised: tuple[Path, Advice]) -> None:
    _, advice = advised
    assert advice.recommended is not None and advice.recommended.startswith("leaf_size")
    best = advice.results.best
    assert best is not None and best.auc.high is not None and best.auc.high < 0
    assert summary(advice.results)[0] == f"Take {advice.recommended}."


def test_a_defence_that_does_nothing_is_not_recommended(advised: tuple[Path, Advice]) -> None:
    _, advice = advised
    (useless,) = [one for one in advice.results.tried if one.defence == "useless"]
    assert useless.effect == "no difference detected" and advice.results.tried[-1] == useless
    assert useless.auc.difference == pytest.approx(0, abs=1e-9)  # the same trees, in pairs


def test_the_recommended_config_is_the_recipe_that_was_tried(advised: tuple[Path, Advice]) -> None:
    _, advice = advised
    config = read_config(advice.folder / "recommended.toml")
    recipe, best = config.recipe(), advice.results.best
    assert isinstance(recipe, EstimatorRecipe) and best is not None
    assert f"min_samples_leaf = {recipe.estimator.min_samples_leaf}" in best.settings
    records = config.records(None)  # a relative path leads from the run folder to the same table
    assert records.digest == advice.results.config.records_sha256


@pytest.mark.slow
def test_the_recommended_config_keeps_the_promise(advised: tuple[Path, Advice], tmp_path: Path) -> None:
    """With another seed, twice: the difference lies within the interval that was promised."""
    config, advice = advised
    best = advice.results.best
    assert best is not None and best.auc.low is not None and best.auc.high is not None
    with quick_single_records(), quick_audits():
        aucs = [
            leakscope.audit(
                read_config(path).source(None), out=tmp_path / path.stem, seed=7, models=16, attacks=["lira"]
            )
            .results.attacks["lira"]
            .auc.value
            for path in (config, advice.folder / "recommended.toml")
        ]
    assert None not in aucs
    # Half of the reach more: the audit that checks the promise has a spread of its own.
    reach = (best.auc.high - best.auc.low) / 2
    assert (aucs[1] or 0) - (aucs[0] or 0) == pytest.approx(best.auc.difference, abs=1.5 * reach)


def test_the_run_verifies_and_its_report_can_be_written_again(advised: tuple[Path, Advice]) -> None:
    _, advice = advised
    with quick_single_records():
        assert verify_run(advice.folder).problems == []
    page = advice.folder / "report.html"
    before = page.read_text()
    with quick_audits():
        rebuild_report(advice.folder)
    assert page.read_text() == before and "Which defence to choose" in before


def test_a_redacted_page_can_be_written(advised: tuple[Path, Advice]) -> None:
    _, advice = advised
    page = rebuild_report(advice.folder, Disclosure(redacted=True))
    assert page.name == "report-redacted.html" and "says nothing about a single one" in page.read_text()


def test_a_changed_number_is_noticed(advised: tuple[Path, Advice]) -> None:
    _, advice = advised
    file = advice.folder / "results.json"
    text = file.read_text()
    file.write_text(text.replace('"recommended": "leaf', '"recommended": "leav'))
    with quick_single_records():
        assert verify_run(advice.folder).problems
    file.write_text(text)


@pytest.mark.slow
def test_the_same_command_trains_nothing_again(advised: tuple[Path, Advice]) -> None:
    config, advice = advised
    banks = sorted(advice.folder.rglob("manifest.json"))
    before = [bank.stat().st_mtime_ns for bank in banks]
    with quick_advice():
        again = advise(config, out=advice.folder, options=OPTIONS)
    assert again.results == advice.results and len(banks) == 3
    assert [bank.stat().st_mtime_ns for bank in banks] == before


def test_the_command_says_what_it_tries_and_what_to_take(advised: tuple[Path, Advice]) -> None:
    config, advice = advised
    with quick_advice():
        done = run_command(
            "advise", config, "--minutes", "60", "--accept-accuracy-loss", "0.1", "--out", advice.folder
        )
    assert done.exit_code == 0, done.err
    assert done.out.startswith("2 defences will be tried with 8 models each") and "Take leaf_size" in done.out
    assert "min_samples_leaf = " in done.out and "recommended.toml" in done.out


@pytest.mark.parametrize(("option", "value"), [("--minutes", "0"), ("--accept-accuracy-loss", "1")])
def test_the_command_refuses_impossible_options(tmp_path: Path, option: str, value: str) -> None:
    done = run_command("advise", write_table(tmp_path), option, value, "--out", tmp_path / "out")
    assert done.exit_code == 2 and value in done.err and not (tmp_path / "out").exists()


def test_other_inputs_do_not_overwrite_a_run(advised: tuple[Path, Advice]) -> None:
    config, advice = advised
    with pytest.raises(BankMismatchError, match="accepted_loss"), quick_advice():
        advise(config, out=advice.folder, options=AdviceOptions(minutes=60, accepted_loss=0.0))


def test_a_factory_that_does_not_take_the_setting_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_forest.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\n\n\n"
        "def make(size=3):\n    return RandomForestClassifier(size)\n"
    )
    config = write_table(tmp_path)
    config.write_text(CONFIG.replace("sklearn.tree:DecisionTreeClassifier", "own_forest:make"))
    with pytest.raises(InputError, match="no setting of the config switches it on"), quick_advice():
        advise(config, out=tmp_path / "out")


def test_a_pipeline_has_no_table_of_settings() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    recipe = EstimatorRecipe(make_pipeline(LogisticRegression()))
    found = candidates(TrainedPopulation(small_records(), recipe), None)
    assert "cannot be written in a config" in found.not_applicable["penalty"]
    assert {defence.changes for defence in found.defences} == {"outputs"}


def test_what_is_not_tried_is_named_once_with_its_reason() -> None:
    from sklearn.tree import DecisionTreeClassifier

    found = candidates(
        TrainedPopulation(small_records(), EstimatorRecipe(DecisionTreeClassifier(max_depth=5))), None
    )
    assert found.not_applicable["weight_decay"] == "it acts on the training loop of a network"
    assert not any(name.startswith("weight_decay(") for name in found.not_applicable)
    assert found.not_applicable["tree_depth(most=10)"] == "max_depth is 5 already"
    tried = [defence.label for defence in found.defences]
    assert tried[:3] == ["leaf_size", "pruning", "temperature"] and set(tried) <= set(found.settings)


def test_few_settings_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.tree import DecisionTreeClassifier

    monkeypatch.setattr("leakscope.advice.candidates.MOST_DEFENCES", 2)
    found = candidates(TrainedPopulation(small_records(), EstimatorRecipe(DecisionTreeClassifier())), None)
    assert [defence.label for defence in found.defences] == ["leaf_size", "tree_depth"]
    assert found.not_applicable["pruning"] == "2 settings are tried at most"


def small_records(labels: Any = None) -> Records:
    features = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    classes = (features[:, 0] > 0).astype(np.int64)
    names = ("no", "yes") if labels is None else ()
    ids = np.arange(40).astype(str)
    return Records(features, classes if labels is None else labels, ids, "made up", {}, names)


def test_a_regression_of_equal_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all labels are equal"):
        advise(small_records(np.full(40, 3, np.float32)), Recipe(), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


PATIENTS = """
[data]
file = "patients.csv"
label = "y"
task = "regression"
groups = ["patient"]

[model]
estimator = "sklearn.tree:DecisionTreeRegressor"

[population]
models = 8
unit = "patient"

[attacks]
names = ["loss", "lira"]
"""


def write_patients(folder: Path) -> Path:
    """Numbers that are mostly noise: a tree that memorizes them predicts worse than their mean."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, 4)).round(3)
    labels = (50 * (features[:, 0] + rng.normal(0, 2.0, N)) + 1000).round(2)
    rows = [
        ",".join([f"p{at // 4}", *map(str, row), str(label)])
        for at, (row, label) in enumerate(zip(features, labels, strict=True))
    ]
    (folder / "patients.csv").write_text("\n".join(["patient,a,b,c,d,y", *rows]) + "\n")
    (folder / "patients.toml").write_text(PATIENTS)
    return folder / "patients.toml"


@pytest.mark.slow
def test_a_regression_on_several_records_per_patient_gets_advice_in_r_squared(tmp_path: Path) -> None:
    config = write_patients(tmp_path)
    with quick_advice():
        advice = advise(config, out=tmp_path / "advice", options=replace(OPTIONS, accepted_loss=0.02))
    results = advice.results
    assert (results.config.utility, results.config.unit, results.config.attacks) == (
        "R²", "patient", ("loss", "lira")
    )  # fmt: skip
    assert advice.recommended is not None and advice.recommended.startswith("leaf_size")
    # R² by hand, from the bank: the mean over models of the errors on the records they were not trained on.
    bank = Bank.open(advice.folder / "banks" / "baseline")
    signals, design = bank.signals(), bank.design()
    squares = np.asarray(signals.last("loss"), np.float64)
    errors = [row[~mask].mean() for row, mask in zip(squares, design.in_mask, strict=True)]
    expected = 1 - np.mean(errors) / np.var(signals.labels, dtype=np.float64)
    assert expected < 0 and results.baseline.utility.value == pytest.approx(expected)
    page = (advice.folder / "report.md").read_text()
    assert "random half of the patients" in page and "0.02 of R²" in page and "accuracy" not in page
    # 50 patients are 25 non-members: a false positive rate of 1% is nothing that they resolve.
    assert results.config.fpr is None or results.config.fpr >= 1 / 25


def test_an_audit_without_a_config_is_refused(tmp_path: Path) -> None:
    with quick_single_records():
        made_up_audit(tmp_path / "run", 0.0)
    with pytest.raises(InputError, match="was not started from a config file"):
        advise(tmp_path / "run", out=tmp_path / "out")


@pytest.mark.parametrize("options", [{"minutes": 0.0}, {"accepted_loss": -0.1}, {"accepted_loss": 1.0}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        replace(AdviceOptions(), **options)
