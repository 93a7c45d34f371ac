"""Settings of an audit: one that would do nothing is refused wherever it is given, and so is a wrong type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import leakscope
from leakscope.attacks.base import Attack
from leakscope.attacks.shokri import Shokri
from leakscope.audits.finished import FinishedRun
from leakscope.errors import InputError
from tests.audits.test_predictions import saved
from tests.cli.test_mistakes import check_refused
from tests.engine.small_population import RECIPE, records

TRAINING: dict[str, Any] = {
    "models": 8, "design": "pairs", "seed": 1, "signals": ["logits"], "device": "cpu", "engine": "local",
}  # fmt: skip
SOURCES: dict[str, Callable[[Path], Any]] = {
    "saved predictions": lambda folder: leakscope.SavedPredictions(saved()),
    "merged runs": lambda folder: leakscope.MergedRuns([folder / "a", folder / "b"]),
    "finished run": lambda folder: FinishedRun(folder / "a"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two audits of the same records with different seeds."""
    folder = tmp_path_factory.mktemp("finished")
    for seed, name in enumerate("ab"):
        settings: dict[str, Any] = {"models": 4, "attacks": ["loss"], "device": "cpu", "seed": seed}
        leakscope.audit(records(), RECIPE, folder / name, **settings)
    return folder


@pytest.mark.parametrize("setting", TRAINING)
@pytest.mark.parametrize("source", SOURCES)
def test_settings_of_training_where_nothing_is_trained(
    tmp_path: Path, finished: Path, source: str, setting: str
) -> None:
    with pytest.raises(InputError, match=f"{setting} would do nothing: nothing is trained; remove"):
        leakscope.audit(SOURCES[source](finished), out=tmp_path / "run", **{setting: TRAINING[setting]})
    assert not (tmp_path / "run").exists()


PYTHON: dict[str, tuple[Callable[[], object], str]] = {
    "a recipe of saved predictions": (
        lambda: leakscope.audit(leakscope.SavedPredictions(saved()), RECIPE),
        "recipe would do nothing: it belongs to records",
    ),
    "an address without Ray": (
        lambda: leakscope.audit(records(), RECIPE, address="auto"),
        "address='auto' would do nothing: it belongs to engine='ray'",
    ),
    "delta without max_epsilon": (
        lambda: leakscope.Gate(max_auc=0.6, delta=1e-6),
        "delta, confidence would do nothing: they belong to `max_epsilon`",
    ),
    "confidence without max_epsilon": (
        lambda: leakscope.Gate(max_auc=0.6, confidence=0.9),
        "would do nothing: they belong to `max_epsilon`",
    ),
    "an unknown setting": (
        lambda: leakscope.audit(records(), RECIPE, atacks=["lira"]),
        "atacks is not a setting of an audit; did you mean 'attacks'?",
    ),
    "the old name of a setting": (
        lambda: leakscope.audit(records(), RECIPE, fpr_budgets=[0.1]),
        "fpr_budgets is not a setting of an audit",
    ),
    "no recipe": (lambda: leakscope.audit(records()), "recipe is missing"),
    "a name for records": (lambda: leakscope.audit("digits", RECIPE), "leakscope.load('digits')"),  # type: ignore[arg-type]
    "an array for records": (lambda: leakscope.audit(np.zeros(3), RECIPE), "source is ndarray"),  # type: ignore[arg-type]
    "an estimator for a recipe": (
        lambda: leakscope.audit(records(), RandomForestClassifier()),  # type: ignore[arg-type]
        "recipe is RandomForestClassifier: give leakscope.Recipe, or wrap an estimator",
    ),
    "a dict for predictions": (
        lambda: leakscope.audit(leakscope.SavedPredictions({"logits": [1]})),  # type: ignore[arg-type]
        "SavedPredictions of dict: give an npz, csv or parquet file",
    ),
    "a dict for a gate": (
        lambda: leakscope.audit(records(), RECIPE, gate={"max_auc": 0.6}),
        "gate={'max_auc': 0.6}: write for example gate=leakscope.Gate(max_auc=0.6) or leakscope.Gate(",
    ),
    "text for models": (lambda: leakscope.audit(records(), RECIPE, models="8"), "models='8': write"),
    "a fraction of models": (lambda: leakscope.audit(records(), RECIPE, models=8.0), "models=8.0: write"),
    "true models": (lambda: leakscope.audit(records(), RECIPE, models=True), "models=True: write"),
    "text for a seed": (lambda: leakscope.audit(records(), RECIPE, seed="x"), "seed='x': write for example"),
    "one attack": (lambda: leakscope.audit(records(), RECIPE, attacks="lira"), "attacks='lira': expected"),
    "no attack": (lambda: leakscope.audit(records(), RECIPE, attacks=[]), "attacks=[]: choose from"),
    "one signal": (lambda: leakscope.audit(records(), RECIPE, signals="logits"), "expected a list"),
    "one rate": (lambda: leakscope.audit(records(), RECIPE, fpr=0.1), "fpr=0.1: expected a list"),
    "text for rates": (lambda: leakscope.audit(records(), RECIPE, fpr="0.1"), "fpr='0.1': expected a list"),
    "texts for rates": (lambda: leakscope.audit(records(), RECIPE, fpr=["0.1"]), "expected a list"),
    "a rate that is no number": (lambda: leakscope.audit(records(), RECIPE, fpr=[float("nan")]), "fpr=[nan]"),
    "Ray, misspelled": (
        lambda: leakscope.audit(records(), RECIPE, engine="Ray"),
        "engine='Ray': choose one of local, ray",
    ),
    "one model": (
        lambda: leakscope.audit(records(), RECIPE, models=1),
        "models=1: a balanced design needs at least 2 models",
    ),
    "several at once": (
        lambda: leakscope.audit(records(), RECIPE, models=0, seed=-1, fpr=[7]),
        "(docs/predictions.md); seed=-1: must be 0 or more; fpr=[7]: must be rates",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "named"), PYTHON.values(), ids=PYTHON)
def test_mistakes_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        call()
    assert named in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"models": np.int64(4), "fpr": [np.float64(0.25)], "attacks": ["loss"]}
    verdict = leakscope.audit(records(), RECIPE, tmp_path, device="cpu", **settings)
    assert verdict.results.config.fpr_budgets == (0.25,)


DATA = "[data]\ndataset = 'digits'\n"
TOML: dict[str, tuple[str, tuple[str, ...]]] = {
    "an address without Ray": (f"{DATA}[population]\naddress = 'auto'", ("address='auto' would do nothing",)),
    "delta without max_epsilon": (
        f"{DATA}[gate]\nmax_auc = 0.6\ndelta = 1e-5",
        ("gate: delta would do nothing: they belong to `max_epsilon`",),
    ),
    "training of an estimator": (
        f"{DATA}[model]\nestimator = 'sklearn.svm:SVC'\n[training]\nepochs = 3",
        ("training would do nothing: the settings of an estimator are model.options",),
    ),
    "training of a function": (
        f"{DATA}[model]\ntrain = 'a:b'\n[training]\nepochs = 3",
        ("training would do nothing: model.train has its own training settings",),
    ),
    "data of saved predictions": (
        f"{DATA}[population]\nmodels = 4\n[predictions]\nfile = 'p.npz'",
        ("data, population would do nothing: saved predictions are audited without training",),
    ),
    "trust without an estimator": (
        f"{DATA}[target]\nweights = 'a.pt'\nmembers = 'm.csv'\ntrust = true",
        ("target: trust would do nothing: only for `estimator`",),
    ),
    "a net of an estimator": (
        f"{DATA}[target]\nestimator = 'a.skops'\nmembers = 'm.csv'\nnet = 'mlp'\npixel_mean = [0.5]",
        ("target: net, pixel_mean would do nothing: only for `weights`",),
    ),
    "a target of two kinds": (
        f"{DATA}[target]\nestimator = 'a.skops'\nweights = 'a.pt'\nmembers = 'm.csv'",
        ("target: give one of `weights`, `estimator`, `predict` or `folder`",),
    ),
    "a target of no kind": (
        f"{DATA}[target]\nmembers = 'm.csv'",
        ("target: give one of `weights`, `estimator`, `predict` or `folder`",),
    ),
    "a target without members": (f"{DATA}[target]\nweights = 'a.pt'", ("target.members is missing",)),
    "a label of a dataset": (f"{DATA}label = 'y'", ("data: label would do nothing: only for `file`",)),
    "options of a file": (
        "[data]\nfile = 'a.csv'\noptions = { n = 3 }",
        ("data: options would do nothing: only for `dataset`",),
    ),
    "two kinds of models": (
        f"{DATA}[model]\nestimator = 'sklearn.svm:SVC'\nnet = 'mlp'",
        ("net would do nothing: give either `net` or `estimator` or `train`",),
    ),
}


@pytest.mark.parametrize("command", ["audit", "plan"])
@pytest.mark.parametrize(("content", "named"), TOML.values(), ids=TOML)
def test_settings_of_a_config_that_would_do_nothing(
    tmp_path: Path, content: str, named: tuple[str, ...], command: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(content)
    check_refused(tmp_path, (command, config), str(config), *named)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--models", "8"), "models would do nothing: nothing is trained"),
        (("--engine", "local"), "engine would do nothing: nothing is trained"),
        (("--data-dir", "/data"), "--data-dir=/data would do nothing: saved predictions need no dataset"),
        (("--address", "auto"), "address='auto' would do nothing: it belongs to engine='ray'"),
    ],
)
def test_options_that_would_do_nothing(tmp_path: Path, arguments: tuple[str, ...], named: str) -> None:
    given = saved()
    path = tmp_path / "mine.npz"
    np.savez(path, logits=given.logits, labels=given.labels, is_member=given.is_member)
    out = ("--out", tmp_path / "run")
    check_refused(tmp_path, ("audit", "--predictions", path, *out, *arguments), named)
    (tmp_path / "mine.toml").write_text("[predictions]\nfile = 'mine.npz'")
    named = named.replace("saved predictions need no dataset", f"{tmp_path / 'mine.toml'} names no dataset")
    check_refused(tmp_path, ("audit", tmp_path / "mine.toml", *out, *arguments), named)
    check_refused(tmp_path, ("audit", tmp_path / "mine.toml", "--predictions", path, *out), "give either")


def local_attack() -> Attack:
    """An attack that no text can name."""
    from dataclasses import dataclass

    from leakscope.attacks.thresholds import LossThreshold

    @dataclass(frozen=True)
    class Hidden(LossThreshold):
        name = "hidden"

    return Hidden()


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        (local_attack, "cannot be imported"),
        (lambda: Shokri(RandomForestClassifier(3)), "RandomForestClassifier"),
    ],
    ids=["a class inside a function", "an object as an option"],
)
def test_an_attack_that_results_cannot_name_is_refused_before_training(
    tmp_path: Path, attack: Callable[[], Attack], named: str
) -> None:
    with pytest.raises(InputError) as error:
        leakscope.audit(records(), RECIPE, tmp_path / "run", models=4, device="cpu", attacks=[attack()])
    assert named in str(error.value)
    assert not (tmp_path / "run").exists()


def test_rates_and_gates_of_merged_runs_can_be_set(tmp_path: Path, finished: Path) -> None:
    source = leakscope.MergedRuns([finished / "a", finished / "b"])
    gate = leakscope.Gate(max_epsilon=50.0, delta=1e-3)
    verdict = leakscope.audit(source, out=tmp_path / "run", fpr=[0.5], gate=gate)
    assert verdict.results.config.fpr_budgets == (0.5,)
    assert verdict.results.attacks["loss"].epsilon.general.delta == 1e-3


def test_runs_without_results_cannot_be_merged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has results; run the audits first"):
        leakscope.audit(leakscope.MergedRuns([tmp_path / "a", tmp_path / "b"]), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
