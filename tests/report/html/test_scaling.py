"""The page of the scaling study: the answer first, published values only beside the published protocol."""

from __future__ import annotations

import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from leakscope.bank.run_folder import to_jsonable
from leakscope.studies.scaling.page import command, headline, page, write_page
from leakscope.studies.scaling.study import PRESETS, ScalingConfig
from tests.report.html.small_studies import small_scaling

Study = tuple[dict[str, Any], Path]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study") / "run"
    return small_scaling(folder), folder


def test_the_run_writes_the_page_and_the_folder_gives_it_again(study: Study) -> None:
    _, folder = study
    before = (folder / "report.html").read_bytes()
    assert write_page(folder).read_bytes() == before


def test_the_strongest_attacks_answer_comes_first_and_the_check_is_no_finding(study: Study) -> None:
    results = copy.deepcopy(study[0])
    for name, auc in (("shokri", 0.6), ("correctness", 0.9), ("loss", 0.7), ("lira", 0.8)):
        results["gap_or_size"][name]["mean_auc"]["value"] = auc
    answers = results["gap_or_size"]
    assert headline(results) == [answers[name]["answer"] for name in ("lira", "loss", "shokri")]


def test_published_values_stand_beside_the_published_protocol_alone(study: Study) -> None:
    results, folder = study
    text = page(results, folder)
    assert "This is not the published protocol" in text and "circle-open" not in text
    published = copy.deepcopy(results)
    published["config"] = to_jsonable(asdict(ScalingConfig()))
    for row, width in zip(published["results"], (16, 64, 256), strict=True):
        row["hidden_width"] = width
    text = page(published, folder)
    assert "ours minus theirs" in text and "circle-open" in text and "0.544" in text


def test_undefined_correlations_are_called_so(study: Study) -> None:
    results = copy.deepcopy(study[0])
    results["gap_or_size"]["lira"]["r_gap"] = {"value": None, "low": None, "high": None}
    before, after = (text.count(">undefined</td>") for text in (page(*study), page(results, study[1])))
    assert after == before + 1


def test_without_reference_models_the_page_says_that_lira_is_absent(study: Study) -> None:
    results = copy.deepcopy(study[0])
    assert "LiRA is absent" not in page(*study)
    results["config"]["n_reference"] = 0
    for found in (results["gap_or_size"], *(row["attacks"] for row in results["results"])):
        del found["lira"]
    assert "LiRA is absent" in page(results, study[1])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "leakscope study scaling --preset published --out runs/again"),
        (PRESETS["decisive"], "--preset decisive --out"),
        ({"widths": (4, 8), "seed": 7}, "--preset published --widths 4,8 --seed 7"),
    ],
)
def test_the_command_asks_for_the_same_study(changes: dict[str, Any], expected: str) -> None:
    assert expected in str(command(to_jsonable(asdict(ScalingConfig(**changes)))))
