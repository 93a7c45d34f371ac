"""Figures as text: ± says no more than is true, and remarks say only what differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.audits.report.cells import attack_table, sets_remarks, sets_table, title_of_attacks
from leakscope.evaluate.results import AuditResults, Figure
from leakscope.report.phrases import significant
from tests.made_up_audits import made_up_audit, quick_single_records


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> AuditResults:
    with quick_single_records():
        folder: Path = tmp_path_factory.mktemp("cells")
        return made_up_audit(folder, 1.0, fpr_budgets=(0.1,)).results


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (12.345, "12.3"),
        (999.6, "1,000"),
        (1000.0, "1,000"),
        (2470.4, "2,470"),
        (0.0, "0"),
    ],
)
def test_large_numbers_are_no_powers_of_ten(value: float, text: str) -> None:
    assert significant(value) == text


def auc_cell(results: AuditResults, value: float, low: float | None, high: float | None) -> str:
    """The first cell of an attack with this AUC."""
    label = next(iter(results.attacks))
    auc = Figure(value, low, high, None)
    attacks = {label: replace(results.attacks[label], auc=auc)}
    headline = replace(results.headline, attack=label)
    return attack_table(replace(results, attacks=attacks, headline=headline)).rows[0][1]


@pytest.mark.parametrize(
    ("low", "high", "cell"),
    [
        (0.480, 0.520, "0.500 ± 0.020"),
        (0.4804, 0.5196, "0.500 ± 0.020"),
        (0.481, 0.521, "0.500 ± 0.020"),  # one unit
        (0.478, 0.523, "0.500 ± 0.023"),
        (0.483, 0.523, "0.500 (0.483 to 0.523)"),
        (0.44, 0.52, "0.500 (0.440 to 0.520)"),
        (None, None, "0.500"),
    ],
)
def test_an_interval_that_is_off_by_more_than_a_unit_has_both_ends(
    results: AuditResults, low: float | None, high: float | None, cell: str
) -> None:
    assert auc_cell(results, 0.5, low, high) == cell


@given(st.floats(0.3, 0.7), st.floats(0, 0.2), st.floats(0, 0.2))
def test_both_printed_ends_are_true_within_a_unit(
    results: AuditResults, value: float, down: float, up: float
) -> None:
    cell = auc_cell(results, value, value - down, value + up)
    if "±" in cell:
        shown, half = map(float, cell.split(" ± "))
        assert shown - half == pytest.approx(round(value - down, 3), abs=0.0011)
        assert shown + half == pytest.approx(round(value + up, 3), abs=0.0011)


def test_the_attack_is_said_to_differ_only_where_its_value_does(results: AuditResults) -> None:
    own = results.attacks[results.headline.attack].auc

    def remarks(auc: Figure) -> str:
        return " ".join(sets_remarks(replace(results, headline=replace(results.headline, auc=auc))))

    assert own.value is not None and own.low is not None
    assert "differs" not in remarks(replace(own, low=own.low - 0.01))
    other = remarks(replace(own, value=own.value - 0.1))
    assert f"{own.value - 0.1:.3f}, differs from the {own.value:.3f} of" in other and "slightly" not in other


def test_nothing_is_said_about_intervals_where_there_are_none(results: AuditResults) -> None:
    assert "±" in title_of_attacks(results) and "half the width" in attack_table(results).caption

    def bare(figure: Figure) -> Figure:
        return replace(figure, low=None, high=None)

    attacks = {
        label: replace(
            figures,
            auc=bare(figures.auc),
            advantage=bare(figures.advantage),
            tpr_at_fpr=tuple(replace(point, low=None, high=None) for point in figures.tpr_at_fpr),
        )
        for label, figures in results.attacks.items()
    }
    without = replace(results, attacks=attacks)
    for text in (title_of_attacks(without), attack_table(without).caption, sets_table(without).caption):
        assert "±" not in text and "interval" not in text.lower()
