"""results.json of an audit: it is read back as written, and its generated schema describes all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results, results_schema, write_results
from leakscope.bank.run_folder import RESULTS
from leakscope.data.predictions import Predictions
from leakscope.errors import CorruptBankError
from leakscope.evaluate.attacked import converged_models
from leakscope.evaluate.config import Source
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.gate import Gate, TprLimit
from leakscope.evaluate.results import AuditResults
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.two_way import Variance
from tests.made_up_audits import made_up_audit, quick_single_records

SCHEMA = results_schema(AuditResults, "audit")


@pytest.fixture(scope="module")
def population(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("population") / "run"
    with quick_single_records():
        made_up_audit(folder, 1.0, fpr_budgets=(0.1, 0.0001), diverged=(3,))
    return folder


@pytest.fixture(scope="module")
def one_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one_model") / "run"
    rng = np.random.default_rng(0)
    predictions = Predictions(
        logits=rng.normal(size=(60, 2)).astype(np.float32),
        labels=np.arange(60) % 2,
        ids=np.arange(60).astype(str),
        is_member=np.arange(60) < 30,
    )
    gate = Gate(max_auc=0.6, max_tpr=(TprLimit(0.001, 0.1),), max_epsilon=1.0, max_exposed_share=0.1)
    audit(SavedPredictions(predictions), out=folder, gate=gate)
    return folder


def test_a_model_that_diverged_still_counts_in_the_design(population: Path) -> None:
    bank = Bank.open(population)
    _, design = converged_models(bank)
    assert design.diverged is not None
    np.testing.assert_array_equal(design.diverged.in_mask, bank.design().in_mask[[3]])
    np.testing.assert_array_equal(design.diverged.numbers, [3])
    assert design.n_models == 15


@pytest.mark.parametrize("run", ["population", "one_model"])
def test_what_an_audit_writes_fits_its_schema(run: str, request: pytest.FixtureRequest) -> None:
    content = json.loads((request.getfixturevalue(run) / RESULTS).read_text())
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    errors = jsonschema.Draft202012Validator(SCHEMA).iter_errors(content)
    assert [f"{error.json_path}: {error.message[:200]}" for error in errors] == []


def schema_objects(node: Any) -> Iterator[dict[str, Any]]:
    """Every object of a schema that has properties."""
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        for value in node.values():
            yield from schema_objects(value)


def test_every_property_is_described_and_no_other_is_allowed() -> None:
    objects = list(schema_objects(SCHEMA))
    assert len(objects) > 20
    for node in objects:
        optional = {"leakscope_version"} & set(node["properties"])  # absent in files of earlier versions
        assert node["additionalProperties"] is False
        assert set(node["required"]) == set(node["properties"]) - optional
        assert [name for name, field in node["properties"].items() if not field.get("description")] == []


def test_a_wrong_type_and_a_new_field_are_refused(population: Path) -> None:
    content = json.loads((population / RESULTS).read_text())
    content["attacks"]["lira"]["auc"]["value"] = "high"
    content["leakage"]["novelty"] = 1
    paths = {error.json_path for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(content)}
    assert {"$.attacks.lira.auc", "$.leakage"} == {path.removesuffix(".value") for path in paths}


def test_results_survive_the_disk(population: Path, tmp_path: Path) -> None:
    results = read_results(population, AuditResults)
    assert results.population.diverged_models == {"3": 1} and results.population.models == 15
    assert results.attacks["lira"].tpr_at_fpr[1].value is None
    source = Source("given model", {"Weights": "a.pt"}, "[data]")
    changed = replace(results, config=replace(results.config, source=source, gate=Gate(max_auc=0.5)))
    assert write_results(tmp_path, changed) == changed == read_results(tmp_path, AuditResults)


def test_damage_is_named(population: Path, tmp_path: Path) -> None:
    content = json.loads((population / RESULTS).read_text())
    content["attacks"]["lira"]["auc"]["low"] = "low"
    (tmp_path / RESULTS).write_text(json.dumps(content))
    with pytest.raises(CorruptBankError, match=r"attacks\.lira\.auc\.low"):
        read_results(tmp_path, AuditResults)


def test_no_rate_has_an_impossible_interval() -> None:
    """Few targets that differ much: a t interval alone would reach from below 0 to above 1."""
    for values in ([0.0, 1.0], [1.0, 1.0, 0.5], [0.0, 0.0, 0.5], [1.0, 1.0], [0.0, 0.0]):
        spread = float(np.var(values))
        variance = Variance(spread, 0.1, 0.2, 0.0, spread + 0.1, len(values) - 1)
        figure = figure_of_targets(
            np.array(values), variance, lambda rate, _: clopper_pearson(round(rate), 1)
        )
        assert figure.value is not None and figure.low is not None and figure.high is not None
        assert 0 <= figure.low <= figure.value <= figure.high <= 1
