"""Every results.json fits its published schema, and no schema lets a field slip in or out unnoticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leakscope
from leakscope.bank.results import figures_json, read_results
from leakscope.bank.run_folder import RESULTS, files_outside_banks
from leakscope.compare.compare import compare
from leakscope.data.predictions import read_predictions
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.runs.kinds import KINDS, is_of_a_run, kind_module, schema
from leakscope.single_model.ensemble import attackers
from leakscope.studies.dynamics import study as dynamics
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.studies.ensemble import study as ensemble
from leakscope.studies.leakage import study as leakage
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import study as scaling
from tests.audits.test_population import small_audit
from tests.audits.test_predictions import saved
from tests.cli.test_attack_command import SMALL as SMALL_ATTACKERS
from tests.cli.test_attack_command import save_predictions
from tests.made_up_audits import made_up_audit, quick_single_records
from tests.studies.test_ensemble import CONFIG as ENSEMBLE
from tests.studies.test_leakage import SMALL as LEAKAGE
from tests.studies.test_scaling import SMALL as SCALING

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

GATE = Gate(max_auc=0.6, max_tpr=(TprLimit(0.05, 0.1),), max_epsilon=1.0, max_exposed_share=0.1)
SETTING = {"models": 4, "universe": 100, "epochs": 4, "every": 2, "batch_size": 32}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Numbers without pictures and pages."""
    monkeypatch.setattr("leakscope.report.page.Page.write", lambda *_: None)
    for room in ("audits.report", "compare", "studies.dynamics", "studies.leakage", "studies.scaling"):
        monkeypatch.setattr(f"leakscope.{room}.page.write_report", lambda *_, **__: None)
    monkeypatch.setattr(scaling_judge, "_N_DRAWS", 50)
    monkeypatch.setattr(attackers, "ATTACKERS", SMALL_ATTACKERS)
    with quick_single_records():
        yield


def problems(kind: str, results: Any) -> list[str]:
    found = jsonschema.Draft202012Validator(schema(kind)).iter_errors(results)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def run_population(out: Path) -> None:
    made_up_audit(out, 1.0)


def run_regression(out: Path) -> None:
    from tests.engine.small_population import regression_records

    small_audit(out, records=regression_records(), attacks=("loss",))


def run_saved_answers(out: Path) -> None:
    source = leakscope.SavedPredictions(saved(n_references=6))
    leakscope.audit(source, out=out, attacks=("loss", "lira"), fpr=(0.1, 0.001), gate=GATE)


def run_attack(out: Path) -> None:
    from leakscope.single_model.attack import attack

    paths = [
        save_predictions(out.with_name(f"{name}.npz"), at) for at, name in enumerate(("public", "private"))
    ]
    attack(read_predictions(paths[0]), read_predictions(paths[1]), out)


def run_comparison(out: Path) -> None:
    runs = [out.with_name(name) for name in ("first", "second")]
    for seed, run in enumerate(runs):
        made_up_audit(run, 1.0, noise_seed=seed)
    compare(runs, out)


def run_comparison_of_models(out: Path) -> None:
    runs = [out.with_name(name) for name in ("first", "second")]
    for run in runs:
        leakscope.audit(leakscope.SavedPredictions(saved()), out=run, attacks=("loss",), fpr=(0.1,))
    compare(runs, out)


def run_dynamics(out: Path) -> None:
    varied = (("sgd", 0), ("sgd", 1), ("sam", 0))
    settings = tuple(Setting(**SETTING, optimizer=name, population=k) for name, k in varied)
    dynamics.run(DynamicsConfig(settings, n_permutations=1), out, device="cpu")


def run_one_checkpoint(out: Path) -> None:
    dynamics.run(DynamicsConfig((Setting(**{**SETTING, "every": 4}),), n_permutations=1), out, device="cpu")


def run_ensemble(out: Path) -> None:
    ensemble.run(ENSEMBLE, out, device="cpu", attackers=SMALL_ATTACKERS)


def run_leakage(out: Path) -> None:
    leakage.run(LEAKAGE, out)


def run_scaling(out: Path) -> None:
    scaling.run(SCALING, out)


def run_advice(out: Path) -> None:
    from leakscope.advice.advise import advise
    from tests.advice.test_advise import OPTIONS, quick_advice, write_table

    with quick_advice():
        advise(write_table(out.parent), out=out, options=OPTIONS)


def run_defences(out: Path) -> None:
    from tests.studies.test_defences import RECIPE, some_records

    leakscope.compare_defences(some_records(), RECIPE, ["top_1"], out, models=8)


RUNS: list[tuple[str, Callable[[Path], None]]] = [
    ("audit", run_population),
    ("audit", run_regression),
    ("audit", run_saved_answers),
    ("advise", run_advice),
    ("attack", run_attack),
    ("compare", run_comparison),
    ("compare", run_comparison_of_models),
    ("study defences", run_defences),
    ("study dynamics", run_dynamics),
    ("study dynamics", run_one_checkpoint),
    ("study ensemble", run_ensemble),
    ("study leakage", run_leakage),
    ("study scaling", run_scaling),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "run"), RUNS, ids=[run.__name__ for _, run in RUNS])
def test_what_a_run_writes_fits_its_schema(kind: str, run: Callable[[Path], None], tmp_path: Path) -> None:
    run(tmp_path / "run")
    results = json.loads((tmp_path / "run" / RESULTS).read_text())
    assert problems(kind, results) == []
    written = files_outside_banks(tmp_path / "run")
    assert all(is_of_a_run(path.relative_to(tmp_path / "run").as_posix()) for path in written)
    figures = figures_json(read_results(tmp_path / "run", kind_module(kind).RESULTS_TYPE))
    assert {text for name in figures for text in sentences(figures[name], name)} == set()


def sentences(value: Any, at: str) -> Iterator[str]:
    """Texts of several words that are no names."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from sentences(inner, f"{at}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from sentences(inner, at)
    elif isinstance(value, str) and value.count(" ") > 2 and not is_name(at):
        yield f"{at}: {value}"


def is_name(at: str) -> bool:
    """Whether a text names the kind of run, is a table of a config file, or was given by the user."""
    return at in ("experiment", "gate") or not {"config", "recipe"}.isdisjoint(at.split("."))


def test_every_kind_of_run_has_a_schema_and_a_test() -> None:
    assert set(KINDS) == {kind for kind, _ in RUNS}
    with pytest.raises(InputError, match="choose from audit"):
        schema("dream")


@pytest.fixture
def audit(tmp_path: Path) -> dict[str, Any]:
    made_up_audit(tmp_path / "run", 1.0)
    return dict(json.loads((tmp_path / "run" / RESULTS).read_text()))


def test_a_new_field_is_refused_wherever_it_is(audit: dict[str, Any]) -> None:
    for path in (("population",), ("attacks", "lira"), ("attacks", "lira", "auc"), ("leakage",), ()):
        changed = copy.deepcopy(audit)
        place = changed
        for step in path:
            place = place[step]
        place["novelty"] = 1
        assert len(problems("audit", changed)) == 1, path


def test_a_missing_field_and_a_wrong_type_are_refused(audit: dict[str, Any]) -> None:
    without = {k: v for k, v in audit.items() if k != "population"}
    assert "'population' is a required property" in problems("audit", without)[0]
    wrong = copy.deepcopy(audit)
    wrong["attacks"]["lira"]["auc"]["value"] = "high"
    assert problems("audit", wrong)[0].startswith("$.attacks.lira.auc.value")


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Every subschema with named properties."""
    if isinstance(node, dict):
        if "properties" in node and "type" in node:
            yield node
        for value in node.values():
            yield from objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described_and_no_fixed_object_is_open(kind: str) -> None:
    published = schema(kind)
    jsonschema.Draft202012Validator.check_schema(published)
    assert published["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    parts = list(objects(published))
    assert len(parts) > 3
    for part in parts:
        assert part["additionalProperties"] is False, part
        undescribed = [
            name
            for name, field in part["properties"].items()
            if not (field.get("description") or "$ref" in field)
        ]
        assert undescribed == [], part.get("title")
