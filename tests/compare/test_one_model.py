"""Comparing audits of one given model: the records vary, and both models were queried about the same ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import leakscope
from leakscope.compare.coarse import rounded_figure
from leakscope.compare.compare import compare
from leakscope.compare.results import DifferenceFigure
from leakscope.compare.tables import leakage_table
from leakscope.data.predictions import Predictions
from leakscope.runs.verification import verify_run
from leakscope.stats.rounding import Rounding
from tests.audits.test_predictions import saved


def audit(predictions: Predictions, out: Path) -> Path:
    return leakscope.audit(leakscope.SavedPredictions(predictions), out=out, fpr=(0.1,)).folder


@pytest.mark.slow
def test_the_outputs_of_one_model_are_compared_over_records(tmp_path: Path) -> None:
    before, after = (audit(saved(leak=leak), tmp_path / f"{leak}") for leak in (3.0, 0.0))
    (run,) = compare([before, after], tmp_path / "out").results.comparisons
    auc = run.auc_of("loss")
    assert run.outcome == "helped" and auc.outcome == "lower"
    assert auc.method == "DeLong, paired by record"
    assert run.records is None and run.is_paired
    assert "bits" not in {figure.measure for figure in run.leakage}
    assert run.accuracy is not None
    cost = run.accuracy.nonmembers
    assert cost.low is not None and cost.high is not None and cost.low <= 0 <= cost.high
    assert compare([after, before], tmp_path / "back").is_regression
    assert verify_run(tmp_path / "out").problems == []


def test_a_model_does_not_differ_from_itself(tmp_path: Path) -> None:
    runs = [audit(replace(saved(), name="saved"), tmp_path / name) for name in ("a", "b")]
    (run,) = compare(runs, tmp_path / "out").results.comparisons
    assert run.outcome == "no difference"
    assert {figure.difference for figure in run.leakage} == {0.0}
    assert "95% interval (these models, other records)" in leakage_table(run).head


def test_the_page_does_not_say_that_the_lists_of_members_differ_by_one_record(tmp_path: Path) -> None:
    """As before and after a person was taken out: an interval of its own kind would say so."""
    before = saved()
    assert before.is_member is not None
    without_one = before.is_member.copy()
    without_one[np.argmax(without_one)] = False
    members = {"same": before.is_member, "without one": without_one}
    runs = [audit(replace(before, is_member=of), tmp_path / name) for name, of in members.items()]
    (run,) = compare(runs, tmp_path / "out").results.comparisons
    figures = [figure for figure in run.leakage if figure.measure == "auc"]
    assert {figure.method for figure in figures} == {"DeLong, paired by record"}
    ends = [end for figure in figures for end in (figure.low, figure.high) if end is not None]
    assert len(ends) == 2 * len(figures) and max(map(abs, ends)) < 0.5


def test_the_page_has_no_interval_beyond_what_is_possible() -> None:
    """Ends are rounded outwards, and a difference of rates lies between -1 and 1."""
    wide = DifferenceFigure(0.5, 0.51, 0.01, -1.0, 1.0, "Dvoretzky-Kiefer-Wolfowitz, Bonferroni")
    rounded = rounded_figure(wide, Rounding(0.02))
    assert (rounded.low, rounded.high) == (-1.0, 1.0)


def test_a_group_that_is_too_small_has_no_difference(tmp_path: Path) -> None:
    given = saved()
    towns = np.where(np.arange(len(given.ids)) < 8, "hamlet", given.groups["town"])
    runs = [audit(replace(given, groups={"town": towns}), tmp_path / name) for name in ("a", "b")]
    (run,) = compare(runs, tmp_path / "out").results.comparisons
    (hamlet,) = (group for group in run.groups["town"] if group.group == "hamlet")
    assert (hamlet.baseline, hamlet.difference) == (None, None) and "fewer than 10" in hamlet.method
