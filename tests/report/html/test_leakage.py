"""The page of the leakage study: verdicts, figures, what was not asked for, the command."""

from __future__ import annotations

import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from leakscope.bank.run_folder import to_jsonable
from leakscope.studies.leakage.page import command, headline, page, write_page
from leakscope.studies.leakage.page_charts import figure
from leakscope.studies.leakage.report import number
from leakscope.studies.leakage.study import budgeted
from tests.report.html.small_studies import small_leakage

Study = tuple[dict[str, Any], Path]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study") / "run"
    return small_leakage(folder), folder


def test_the_run_writes_the_page_and_the_folder_gives_it_again(study: Study) -> None:
    _, folder = study
    before = (folder / "report.html").read_bytes()
    assert write_page(folder).read_bytes() == before


def test_every_claim_stands_with_its_verdict(study: Study) -> None:
    results, folder = study
    text = page(results, folder)
    word = {True: "holds", False: "fails", None: "undefined"}
    for check in results["checks"]:
        claim = check["claim"].replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;")
        assert f'<th scope="row">{claim}</th><td>{word[check["holds"]]}</td>' in text
    n_failed = sum(check["holds"] is False for check in results["checks"])
    assert f"{n_failed} claims fail" in text if n_failed else "no claim fails" in text


def test_the_headline_counts_only_trends_that_hold(study: Study) -> None:
    results = copy.deepcopy(study[0])
    for name in results["figures"]:
        results["figures"][name]["trends"]["leakage"]["holds"] = name == "3"
    lead, *_ = headline(results)
    assert (
        lead
        == "In 1 of 2 figures the leakage goes the way that was published: a heavier ridge, less leakage."
    )
    results["figures"]["3"]["trends"]["leakage"]["holds"] = None
    assert headline(results)[0].startswith("In none of 2 figures")


def test_the_ends_of_a_figure_stand_with_their_intervals(study: Study) -> None:
    results, _ = study
    last = results["figures"]["1"]["points"][-1]
    low, high = (number(last["rho_kl"][end]) for end in ("mean_low", "mean_high"))
    (line,) = [line for line in headline(results) if line.startswith("Figure 1")]
    assert f"{number(last['rho_kl']['mean'])} nats ({low} to {high}) at 400" in line


def test_figures_that_were_not_asked_for_are_named_as_absent(study: Study) -> None:
    text = page(*study)
    for name in ("2", "4", "5"):
        assert f"Figure {name} was not asked for." in text
    assert "Figure 1 was not asked for." not in text


def test_without_the_control_the_page_says_so(study: Study) -> None:
    results, folder = study
    assert "presence shuffled, nothing leaks" in page(results, folder)
    without = {name: value for name, value in results.items() if name != "shuffled"}
    assert "there is no control" in page(without, folder)


def test_leakage_at_or_below_zero_takes_a_linear_axis(study: Study) -> None:
    results = copy.deepcopy(study[0])
    for point in results["figures"]["1"]["points"]:
        point["rho_kl"] |= {"mean": 1.0, "mean_low": 0.5, "median": 0.7}
    assert '"type":"log"' in figure("f", results, "1")
    results["figures"]["1"]["points"][0]["rho_kl"]["mean_low"] = -0.1
    assert '"type":"log"' not in figure("f", results, "1")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"budget": "standard"}, "leakscope study leakage --budget standard --out runs/again"),
        ({"budget": "quick", "figures": (1, 5), "seed": 3}, "--budget quick --figure 1 --figure 5 --seed 3"),
        ({"budget": "thorough", "records": 77}, "--budget thorough --records 77"),
        ({"budget": "quick", "network_trials": 5}, ""),
    ],
)
def test_the_command_asks_for_the_same_study(given: dict[str, Any], expected: str) -> None:
    found = str(command(to_jsonable(asdict(budgeted(**given)))))
    assert expected in found and bool(found) == bool(expected)
