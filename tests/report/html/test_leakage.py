"""The page of the leakage study: outcomes, figures, what is not part of the run, the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from leakscope.studies.claims import counted
from leakscope.studies.leakage.checks import verdict
from leakscope.studies.leakage.claims import settle
from leakscope.studies.leakage.config import with_budget
from leakscope.studies.leakage.page import command, headline, page, write_report
from leakscope.studies.leakage.page_charts import leakage_chart, number
from leakscope.studies.leakage.results import Leakage, LeakageResults
from tests.report.html.small_studies import small_leakage

pytestmark = pytest.mark.slow

Study = tuple[LeakageResults, Path]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study") / "run"
    return small_leakage(folder), folder


def test_the_run_writes_the_page_and_the_folder_gives_it_again(study: Study) -> None:
    results, folder = study
    before = (folder / "report.html").read_bytes()
    write_report(results, folder, redacted=False)
    assert (folder / "report.html").read_bytes() == before


def test_every_check_stands_with_its_outcome(study: Study) -> None:
    results, folder = study
    text = page(results, folder).render()
    for check in results.checks:
        assert f'<th scope="row">{escape(check.statement)}</th><td>{verdict(check)}</td>' in text


def test_the_badge_counts_failed_checks(study: Study) -> None:
    results, folder = study
    for n_failed, badge in ((0, "no check failed"), (1, "1 check failed"), (2, "2 checks failed")):
        checks = [replace(check, holds=k >= n_failed) for k, check in enumerate(results.checks)]
        assert badge in page(replace(results, checks=tuple(checks)), folder).render()


def with_trends(results: LeakageResults, holds: dict[int, bool | None]) -> LeakageResults:
    figures = {}
    for number_, figure in results.figures.items():
        leakage = replace(figure.trends.leakage, holds=holds[number_])
        figures[number_] = replace(figure, trends=replace(figure.trends, leakage=leakage))
    return replace(results, figures=figures)


def test_the_headline_counts_only_trends_that_hold(study: Study) -> None:
    lead, effects, *_ = headline(with_trends(study[0], {1: False, 3: True}))
    assert lead == "1 of 2 published trends are reproduced."
    assert effects == "A heavier ridge penalty, less leakage."
    assert headline(with_trends(study[0], {1: False, 3: None}))[0].startswith("0 of 2 published trends")


def test_the_ends_of_a_figure_stand_with_their_intervals(study: Study) -> None:
    results, _ = study
    last = results.figures[1].points[-1].rho_kl
    (line,) = [line for line in headline(results) if line.startswith("Figure 1")]
    interval = f"{number(last.mean_low)} to {number(last.mean_high)}"
    assert f"{number(last.mean)} nats ({interval}) at 320" in line


def test_figures_that_are_not_part_of_the_run_are_named(study: Study) -> None:
    text = page(*study).render()
    for figure in (2, 4, 5):
        assert f"Figure {figure} is not part of this run." in text
    assert "Figure 1 is not part of this run." not in text


def test_without_the_control_the_page_says_so(study: Study) -> None:
    results, folder = study
    assert "with presence shuffled, nothing leaks" in page(results, folder).render()
    assert "There is no control" in page(replace(results, shuffled=()), folder).render()


def with_leakage(results: LeakageResults, leakage: list[Leakage]) -> LeakageResults:
    pairs = zip(results.figures[1].points, leakage, strict=True)
    points = tuple(replace(point, rho_kl=rho_kl) for point, rho_kl in pairs)
    return replace(results, figures={1: replace(results.figures[1], points=points)})


def right_axis(results: LeakageResults) -> dict[str, Any]:
    axis: dict[str, Any] = leakage_chart(results, 1).figure["layout"]["yaxis2"]
    return axis


def test_leakage_at_or_below_zero_takes_a_linear_axis(study: Study) -> None:
    results, _ = study
    positive = [replace(p.rho_kl, mean=1.0, mean_low=0.5, median=0.7) for p in results.figures[1].points]
    assert right_axis(with_leakage(results, positive)).get("type") == "log"
    mixed = [replace(positive[0], mean_low=-0.1), *positive[1:]]
    assert "type" not in right_axis(with_leakage(results, mixed))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"budget": "standard"}, "leakscope study leakage --budget standard --out runs/again"),
        ({"budget": "quick", "figures": (1, 5), "seed": 3}, "--budget quick --figure 1 --figure 5 --seed 3"),
        ({"budget": "thorough", "records": 77}, "--budget thorough --records 77"),
        ({"budget": "quick", "network_trials": 5}, ""),
        ({"budget": "quick", "extensions": ("privacy",)}, "--budget quick --extension privacy --out"),
        (
            {"budget": "quick", "figures": (1,), "extensions": ("limits",)},
            "--figure 1 --extension limits --out",
        ),
        ({"budget": "quick", "extensions": ()}, ""),
    ],
)
def test_the_command_asks_for_the_same_study(given: dict[str, Any], expected: str) -> None:
    line = str(command(with_budget(**given)))
    assert expected in line and bool(line) == bool(expected)


def test_the_page_has_the_claims_of_the_publication_with_their_verdicts(study: Study) -> None:
    text = page(*study).render()
    for entry in settle([study[0]]):
        assert escape(entry.claim.statement) in text
    assert counted(settle([study[0]])) in text
