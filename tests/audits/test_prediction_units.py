"""Saved predictions of people with several rows each: figures are about people, or a warning is printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate
from tests.cli.command import run_command

N_PATIENTS, N_VISITS = 150, 20


def visits(path: Path, seed: int = 0, mixed: bool = False) -> Path:
    """Nothing leaks, but the rows of a patient are alike; with `mixed`, rows are drawn by themselves."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(N_PATIENTS), N_VISITS)
    log_odds = 1.5 + rng.normal(size=N_PATIENTS)[patient] + 0.5 * rng.normal(size=len(patient))
    label = patient % 2
    is_member = rng.random(len(patient)) < 0.5 if mixed else patient < N_PATIENTS // 2
    pl.DataFrame({
        "visit": np.arange(len(patient)),
        "patient": [f"P{p:03d}" for p in patient],
        "label": label,
        "prob": 1 / (1 + np.exp(-np.where(label == 1, log_odds, -log_odds))),
        "is_member": is_member.astype(int),
    }).write_csv(path)  # fmt: skip
    return path


def test_no_gate_decides_by_rows_that_belong_together(tmp_path: Path) -> None:
    """Over rows, half of such audits fail a limit of 0.53 or pass it; 150 patients cannot decide."""
    gate = Gate(max_auc=0.53)
    for seed in range(4):
        source = SavedPredictions(visits(tmp_path / f"{seed}.csv", seed))
        verdict = audit(source, out=tmp_path / f"run{seed}", unit="patient", gate=gate, attacks=["loss"])
        assert verdict.outcome == "inconclusive"
        figure = verdict.results.attacks["loss"].auc
        assert figure.low < 0.5 < figure.high
        assert verdict.results.population.records == N_PATIENTS


def test_rows_that_belong_together_are_pointed_at(tmp_path: Path) -> None:
    (warning,) = SavedPredictions(visits(tmp_path / "visits.csv")).warnings(None)
    assert "'patient'" in warning and "--unit patient" in warning
    assert SavedPredictions(tmp_path / "visits.csv").warnings("patient") == []
    assert SavedPredictions(visits(tmp_path / "mixed.csv", mixed=True)).warnings(None) == []


def test_the_command_warns_and_takes_the_unit(tmp_path: Path) -> None:
    path = visits(tmp_path / "visits.csv")
    warned = run_command("audit", "--predictions", path, "--id", "visit", "--out", tmp_path / "rows")
    assert "set unit = 'patient'" in " ".join(warned.out.split())
    done = run_command(
        "audit", "--predictions", path, "--id", "visit", "--unit", "patient", "--out", tmp_path / "patients"
    )
    assert "150 patients" in " ".join(done.out.split()) and "Warning: all rows" not in done.out
    assert run_command("verify", tmp_path / "patients").exit_code == 0


@pytest.mark.parametrize(
    ("unit", "mixed", "named"),
    [("doctor", False, "no such column"), ("patient", True, "some records are members and others")],
)
def test_what_is_no_unit_is_refused(tmp_path: Path, unit: str, mixed: bool, named: str) -> None:
    source = SavedPredictions(visits(tmp_path / "visits.csv", mixed=mixed))
    with pytest.raises(InputError, match=named):
        audit(source, out=tmp_path / "run", unit=unit)
