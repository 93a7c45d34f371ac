"""What `leakscope attack` writes: the schema describes every field, and real results fit it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.bank.results import results_schema
from leakscope.data.predictions import Predictions
from leakscope.single_model.attack import attack, recompute, write_submission
from leakscope.single_model.results import AttackResults, AttackSettings

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")


def undescribed(schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """Properties without a description, wherever they are in a schema."""
    for name, definition in schema.get("properties", {}).items():
        if not definition.get("description"):
            yield f"{at}.{name}"
    for name, definition in schema.get("$defs", {}).items():
        yield from undescribed(definition, name)


def outputs(seed: int, n: int = 120) -> Predictions:
    rng = np.random.default_rng(seed)
    is_member, labels, logits = rng.permutation(n) < n // 2, rng.integers(0, 3, n), rng.normal(size=(n, 3))
    logits[np.arange(n), labels] += 1 + 2 * is_member
    ids = np.array([f"{seed}-{i}" for i in range(n)])
    return Predictions(logits.astype(np.float32), labels, ids, is_member)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AttackResults]:
    folder = tmp_path_factory.mktemp("attack") / "run"
    model = {"kind": "network", "file": "net.pt", "sha256": "a" * 64, "net": "mlp"}
    return folder, attack(outputs(1), outputs(2), folder, AttackSettings("lightgbm"), model)


def test_every_property_of_the_schema_is_described() -> None:
    assert list(undescribed(results_schema(AttackResults, "attack"))) == []


def test_real_results_fit_the_schema_and_others_do_not(results: tuple[Path, AttackResults]) -> None:
    stored = json.loads((results[0] / "results.json").read_text())
    validator = jsonschema.Draft202012Validator(results_schema(AttackResults, "attack"))
    validator.validate(stored)
    for spoiled in (stored | {"more": 1}, {k: v for k, v in stored.items() if k != "chosen"}):
        assert not validator.is_valid(spoiled)


def test_every_number_comes_again_from_the_folder(results: tuple[Path, AttackResults]) -> None:
    folder, written = results
    assert recompute(folder, written.config) == written
    scores = np.load(folder / "private" / "lightgbm.npy")
    np.save(folder / "private" / "lightgbm.npy", scores / 2)
    spread = recompute(folder, written.config).attackers["lightgbm"].private
    assert spread.high == written.attackers["lightgbm"].private.high / 2
    np.save(folder / "private" / "lightgbm.npy", scores)


def test_the_report_says_which_model_it_was_and_how_to_run_it_again(
    results: tuple[Path, AttackResults],
) -> None:
    page = (results[0] / "report.html").read_text()
    assert "network, net.pt, mlp" in page and "a" * 16 in page
    assert "leakscope attack --model net.pt --net mlp --public PUBLIC --private PRIVATE" in page


def test_no_id_becomes_a_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    ids = np.array(["=1+1", "+a", "-x", "@SUM(A1)", "\tb", "-5", "+1e3", "a=1", "r-7"])
    private = replace(outputs(1, n=9), ids=ids)
    write_submission(tmp_path / "submission.csv", private, np.zeros(9))
    lines = (tmp_path / "submission.csv").read_text().splitlines()[1:]
    assert [line.rsplit(",", 1)[0] for line in lines] == [
        "'=1+1", "'+a", "'-x", "'@SUM(A1)", "'\tb", "-5", "+1e3", "a=1", "r-7"
    ]  # fmt: skip
