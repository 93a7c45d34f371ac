"""Edits of a user's files: what changes the models is refused, what does not is reused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import leakscope
from leakscope.audits.config import read_config
from leakscope.audits.finished import FinishedRun
from leakscope.code_identity.walk import CodeIdentity, code_identity
from leakscope.errors import BankMismatchError, InputError, LeakscopeError
from tests.code_identity.project import Project, records

Recipe = Callable[[Any], Any]


def by_function(module: Any) -> leakscope.FunctionRecipe:
    return leakscope.FunctionRecipe(module.train)


def by_closure(module: Any) -> leakscope.FunctionRecipe:
    return leakscope.FunctionRecipe(module.closure)


def by_partial(module: Any) -> leakscope.FunctionRecipe:
    return leakscope.FunctionRecipe(module.partial)


def by_object(module: Any) -> leakscope.FunctionRecipe:
    return leakscope.FunctionRecipe(module.trainer)


def by_estimator(module: Any) -> leakscope.EstimatorRecipe:
    return leakscope.EstimatorRecipe(module.Estimator(), processes=1)


def by_net(module: Any) -> leakscope.Recipe:
    return leakscope.Recipe(net="own_train:net", epochs=1)


class Edit(NamedTuple):
    recipe: Recipe
    file: str
    old: str
    new: str


REFUSED = {
    "a module constant": Edit(by_function, "own_train.py", "SHARPNESS = 3.0", "SHARPNESS = 9.0"),
    "a helper in the same file": Edit(by_function, "own_train.py", "-SHARPNESS *", "-2 * SHARPNESS *"),
    "a helper in another file": Edit(by_function, "own_helper.py", "np.abs(gaps)", "(gaps**2)"),
    "a base class": Edit(by_estimator, "own_base.py", "-np.abs(x", "-5 * np.abs(x"),
    "an activation in another module": Edit(by_net, "own_activation.py", "relu", "tanh"),
    "a closure's value": Edit(by_closure, "own_train.py", "made(2.0)", "made(5.0)"),
    "a partial's argument": Edit(by_partial, "own_train.py", "weight=2.0", "weight=5.0"),
    "an object's attribute": Edit(by_object, "own_train.py", "Trainer(2.0)", "Trainer(5.0)"),
    "a default argument": Edit(by_function, "own_train.py", "power=1.0", "power=2.0"),
}
REUSED = {
    "a comment": Edit(by_function, "own_train.py", "    features, labels", "    # Why\n    features, labels"),
    "a docstring": Edit(by_estimator, "own_base.py", "    def fit", '    """Means."""\n\n    def fit'),
    "formatting": Edit(
        by_net,
        "own_layers.py",
        "        return self.last(bent(self.first(x)))",
        "        return self.last(  # the last\n            bent((self.first(x))),\n        )",
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two edits within a second look alike to it
    return Project(tmp_path)


def signals_of(folder: Path) -> bytes:
    return (folder / "signals" / "loss.npy").read_bytes()


@pytest.mark.parametrize("what", REFUSED)
def test_models_of_edited_code_are_refused(what: str, project: Project) -> None:
    edit = REFUSED[what]
    project.audit(edit.recipe)
    before = signals_of(project.folder / "run")
    project.edit(*edit[1:])
    with pytest.raises(BankMismatchError, match="were trained by other code"):
        project.audit(edit.recipe)
    assert signals_of(project.folder / "run") == before
    project.audit(edit.recipe, folder="anew")
    assert signals_of(project.folder / "anew") != before  # the edit does change the models


@pytest.mark.parametrize("what", REUSED)
def test_models_are_reused_when_only_the_text_was_edited(what: str, project: Project) -> None:
    edit = REUSED[what]
    project.audit(edit.recipe)
    manifest = (project.folder / "run" / "manifest.json").read_bytes()
    project.edit(*edit[1:])
    project.audit(edit.recipe)
    assert (project.folder / "run" / "manifest.json").read_bytes() == manifest


def test_the_message_names_the_module_and_the_ways_out(project: Project) -> None:
    project.audit(by_function)
    project.edit("own_helper.py", "np.abs(gaps)", "(gaps**2)")
    with pytest.raises(BankMismatchError) as caught:
        project.audit(by_function)
    message = str(caught.value)
    assert "module own_helper has changed" in message and "module own_train" not in message
    assert all(way in message for way in ("--reuse", "reuse=True", "--fresh", "fresh=True", "--out"))


def test_reuse_takes_the_models_that_are_there_and_extends_them(project: Project) -> None:
    project.audit(by_function)
    manifest = (project.folder / "run" / "manifest.json").read_bytes()
    project.edit("own_train.py", "SHARPNESS = 3.0", "SHARPNESS = 9.0 / 3.0")
    project.audit(by_function, reuse=True)
    assert (project.folder / "run" / "manifest.json").read_bytes() == manifest
    with pytest.raises(BankMismatchError, match="module own_train has changed"):
        project.audit(by_function, models=6)
    verdict = project.audit(by_function, models=6, reuse=True)
    assert verdict.results.population.models == 6
    project.audit(by_function, models=6, reuse=True)


@pytest.mark.slow
def test_code_that_cannot_be_compared_needs_reuse_every_time(project: Project) -> None:
    def by_built(module: Any) -> leakscope.FunctionRecipe:
        exec("def built(*arguments):\n    return train(*arguments)\n", built := {"train": module.train})
        return leakscope.FunctionRecipe(built["built"])

    project.audit(by_built)
    with pytest.raises(BankMismatchError, match=r"may have been trained .*train was built at run time"):
        project.audit(by_built)
    with pytest.raises(BankMismatchError, match="may have been trained"):
        project.audit(by_built, models=6)
    assert not (project.folder / "run" / "parts.json").exists()
    for n_models in (4, 6, 6):
        verdict = project.audit(by_built, models=n_models, reuse=True)
        assert verdict.results.population.models == n_models


def test_fresh_trains_anew(project: Project) -> None:
    project.audit(by_function)
    before = signals_of(project.folder / "run")
    project.edit("own_train.py", "SHARPNESS = 3.0", "SHARPNESS = 9.0")
    project.audit(by_function, fresh=True)
    assert signals_of(project.folder / "run") != before
    project.audit(by_function)


def test_fresh_removes_no_other_kind_of_run(project: Project) -> None:
    run = project.folder / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no run"):
        project.audit(by_function, fresh=True)
    assert (run / "notes.txt").read_text() == "mine"
    finished = project.audit(by_function, folder="audit").folder
    with pytest.raises(InputError, match="fresh would do nothing"):
        leakscope.audit(FinishedRun(finished), out=finished, fresh=True)
    assert signals_of(finished)


@pytest.mark.parametrize("recipe", [by_function, by_estimator])
def test_a_run_that_crashed_before_its_first_model_refuses_nothing(project: Project, recipe: Recipe) -> None:
    file, line = {
        by_function: ("own_helper.py", "    gaps = queries[:, None] - features[None]\n"),
        by_estimator: ("own_base.py", "        self.classes_ = np.unique(y)\n"),
    }[recipe]
    project.edit(file, line, f"{line[: len(line) - len(line.lstrip())]}raise ValueError('not yet')\n{line}")
    with pytest.raises(LeakscopeError, match="not yet"):
        project.audit(recipe)
    assert (project.folder / "run" / "identity.json").exists()
    (project.folder / file).write_text((project.folder / file).read_text().replace("raise ", "str() or "))
    project.audit(recipe, seed=1)
    assert leakscope.open_run(project.folder / "run") is not None


@pytest.mark.parametrize("nested", [True, False])
def test_what_a_frozen_estimator_was_fitted_to_counts(nested: bool, tmp_path: Path) -> None:
    """A clone of it stays fitted, so every model holds what it learned from data that no bank names."""
    frozen = pytest.importorskip("sklearn.frozen", reason="this scikit-learn freezes no estimators")

    def audit(shift: float) -> leakscope.Verdict:
        rng = np.random.default_rng(0)
        tree = DecisionTreeClassifier(max_depth=2)
        fitted = RandomForestClassifier(3, random_state=0) if not nested else StandardScaler()
        fitted.fit(rng.normal(shift, size=(24, 3)), np.arange(24) % 2)
        part = frozen.FrozenEstimator(fitted)
        recipe = leakscope.EstimatorRecipe(make_pipeline(part, tree) if nested else part, processes=1)
        return leakscope.audit(records(), recipe, tmp_path, models=4, attacks=["loss"], device="cpu")

    audit(0)
    audit(0)
    with pytest.raises(BankMismatchError, match="were trained by other code"):
        audit(3)


@pytest.mark.parametrize("setting", ["train", "net", "estimator"])
def test_the_module_that_a_config_names_counts(setting: str, project: Project) -> None:
    """Also where the function comes from another module, which does not know of it."""
    name = {"train": "train", "net": "net", "estimator": "Estimator"}[setting]
    files = {
        "own_named.py": f"import own_train\nimport own_plug\n{name} = own_train.{name}\n",
        "own_plug.py": "import own_helper\nown_helper.depth = 3\n",
        "c.toml": f"[data]\ndataset = 'digits'\n[model]\n{setting} = 'own_named:{name}'\n",
    }
    for file, text in files.items():
        (project.folder / file).write_text(text)

    def identity() -> CodeIdentity:
        named = getattr(project.load("own_named"), name)
        assert read_config(project.folder / "c.toml").recipe()
        return code_identity(own=named)

    first = identity()
    assert {"own_named", "own_plug", "own_train"} <= set(first.modules)
    assert identity() == first
    project.edit("own_plug.py", "3", "4")
    assert identity() != first
