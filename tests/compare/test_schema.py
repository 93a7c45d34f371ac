"""The published schema of a comparison's results: every property is described, and real results fit it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leakscope
from leakscope.compare.compare import Comparison, compare
from leakscope.runs.kinds import schema
from tests.audits.test_predictions import saved

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")


def problems(folder: Path) -> list[str]:
    results = json.loads((folder / "results.json").read_text())
    validator = jsonschema.Draft202012Validator(schema("compare"))
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(results)]


def properties(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of every object of a schema."""
    if isinstance(node, dict):
        yield from node.get("properties", {}).items()
        for value in node.values():
            yield from properties(value)


def test_every_property_is_described() -> None:
    published = schema("compare")
    jsonschema.Draft202012Validator.check_schema(published)
    described = dict(properties(published))
    assert {"simultaneous_low", "share_difference", "group", "recipe_differences"} <= set(described)
    assert [name for name, part in properties(published) if not part.get("description")] == []


def test_results_of_populations_fit_the_schema(helped: Comparison) -> None:
    assert problems(helped.folder) == []


def test_results_of_one_model_fit_the_schema(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("first", "second")]
    for run in runs:
        leakscope.audit(leakscope.SavedPredictions(saved()), out=run, attacks=["loss"], fpr=(0.1,))
    assert problems(compare(runs, tmp_path / "out").folder) == []


def test_a_new_field_does_not_fit(helped: Comparison, tmp_path: Path) -> None:
    results = json.loads((helped.folder / "results.json").read_text())
    results["comparisons"][0]["leakage"][0]["novelty"] = 1
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert len(problems(tmp_path)) == 1
