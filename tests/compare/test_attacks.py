"""Attacks in a comparison: with options, and from a module outside the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.compare.compare import compare
from leakscope.runs.verification import verify_run
from tests.made_up_audits import made_up_audit

MARGIN = """
from dataclasses import dataclass

from leakscope import Attack


@dataclass(frozen=True)
class Margin(Attack):
    name = "margin"
    needs = ("log_odds",)
    power: int = 1

    def run(self, signals, design, targets, scores):
        log_odds = signals.last("log_odds")[targets]
        scores[:] = log_odds if self.power == 1 else log_odds**self.power


@dataclass(frozen=True)
class Positive(Attack):
    name = "positive"
    needs = ("log_odds",)
    is_binary = True

    def run(self, signals, design, targets, scores):
        scores[:] = signals.last("log_odds")[targets] > 0
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of an importable module with two attacks."""
    (tmp_path / "strangers_attacks.py").write_text(MARGIN)
    monkeypatch.syspath_prepend(tmp_path)
    return "strangers_attacks"


@pytest.mark.slow
def test_attacks_from_outside_the_package_are_compared(tmp_path: Path, module: str) -> None:
    attacks = (f"{module}:Margin(power=3)", f"{module}:Positive", "lira(online=false)")
    for name, gap in (("leaky", 2.0), ("defended", 0.2)):
        made_up_audit(tmp_path / name, gap, attacks=attacks)
    comparison = compare([tmp_path / "leaky", tmp_path / "defended"], tmp_path / "out")
    (run,) = comparison.results.comparisons
    measured: dict[str | None, set[str]] = {}
    for figure in run.leakage:
        measured.setdefault(figure.attack, set()).add(figure.measure)
    assert measured["margin(power=3)"] == {"auc", "advantage", "tpr"}
    assert measured["positive"] == {"auc"}
    assert measured["lira(online=false)"] == {"auc", "advantage", "tpr"}
    assert run.auc_of("margin(power=3)").outcome == "lower"
    assert verify_run(tmp_path / "out").problems == []


def test_different_attacks_with_the_same_label_are_not_compared(tmp_path: Path, module: str) -> None:
    (tmp_path / "others_attacks.py").write_text(MARGIN.replace("log_odds**", "log_odds*"))
    made_up_audit(tmp_path / "first", 1.0, attacks=("loss", f"{module}:Margin"))
    made_up_audit(tmp_path / "second", 1.0, attacks=("loss", "others_attacks:Margin"))
    results = compare([tmp_path / "first", tmp_path / "second"], tmp_path / "out").results
    assert {figure.attack for figure in results.comparisons[0].leakage} >= {"loss"}
    assert "margin" not in {figure.attack for figure in results.comparisons[0].leakage}
    assert results.left_out.attacks == ("others_attacks:Margin", f"{module}:Margin")
