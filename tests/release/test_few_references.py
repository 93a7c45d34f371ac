"""The page about few references: its figures are those of the scoreboard, and its example's check works."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import leakscope
from leakscope.data.predictions import Predictions
from tests.quick_audits import quick_audits

DOCS = Path(__file__).resolve().parents[2] / "docs"
BANKS = ("cifar10-wrn28-2-adamw", "cifar10-wrn28-2-rmia", "cifar10-wrn28-2")
N_RECORDS = 1200


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"]


def test_the_table_is_that_of_the_scoreboard() -> None:
    board = (DOCS / "scoreboard.md").read_text().split("## What each number of reference models buys")[1]
    measured = {(row[0], row[1]): (row[3], row[5]) for row in rows(board.split("\n## ")[0])[2:]}
    page = (
        (DOCS / "few_references.md")
        .read_text()
        .split("## What each number of references gains")[1]
        .split("\n## ")[0]
    )
    table = rows(page)[2:]
    assert [row[0] for row in table] == ["0", "1", "2", "4", "8", "19, 63, 43"]
    for numbers, *cells in table:
        each = numbers.split(", ") * (3 if ", " not in numbers else 1)
        for k, bank in enumerate(BANKS):
            assert (cells[2 * k], cells[2 * k + 1]) == measured[bank, each[k]]


def predictions(target: np.ndarray, references: np.ndarray, rng: np.random.Generator) -> Predictions:
    """Outputs of models that leak nothing."""
    labels, ease = rng.integers(0, 3, N_RECORDS), rng.normal(scale=1.5, size=N_RECORDS)
    logits = rng.normal(size=(1 + len(references), N_RECORDS, 3))
    logits[:, np.arange(N_RECORDS), labels] += 1 + ease
    ids = np.arange(N_RECORDS).astype(str)
    return Predictions(
        logits[0].astype(np.float32), labels, ids, target,
        reference_logits=logits[1:].astype(np.float32), reference_in_mask=references,
    )  # fmt: skip


def partition(rng: np.random.Generator, n_records: int = N_RECORDS, n_folds: int = 5) -> np.ndarray:
    return (rng.permutation(n_records) % n_folds) != np.arange(n_folds)[:, None]


@pytest.mark.parametrize("way", ["another partition", "its own partition", "a test set", "out of fold"])
def test_folds_are_references_where_they_do_not_reveal_members(way: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    first, second = partition(rng), partition(rng)
    in_folds = np.hstack([partition(rng, N_RECORDS // 2), np.zeros((5, N_RECORDS // 2), dtype=bool)])
    half = np.arange(N_RECORDS) < N_RECORDS // 2
    target, references = {
        "another partition": (first[0], second),
        "its own partition": (first[0], first[1:]),
        "a test set": (half, in_folds),
        "out of fold": (half, np.zeros((1, N_RECORDS), dtype=bool)),
    }[way]
    source = leakscope.SavedPredictions(predictions(target, references, rng))
    with quick_audits():
        verdict = leakscope.audit(source, out=tmp_path / "run")
    failed = [check.name for check in verdict.results.hygiene if check.status == "failed"]
    if way in ("another partition", "out of fold"):
        assert failed == []
        assert verdict.rating == "none found"
    else:
        assert "overlap" in failed
        assert verdict.outcome == "inconclusive"
    if way == "a test set":
        auc = verdict.results.attacks["eb_lira"].auc
        assert auc.low is not None and auc.low > 0.5, "without the check, this would pass for leakage"


def test_the_example_is_the_one_that_the_page_names() -> None:
    named = re.findall(r"python (examples/\w+\.py)", (DOCS / "few_references.md").read_text())
    assert named == ["examples/folds_as_references.py"]
