"""The page of the scaling study: the answer first, published values only beside the published protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leakscope.studies.scaling.config import PRESETS, ScalingConfig
from leakscope.studies.scaling.page import command, headline, page, write_report
from leakscope.studies.scaling.results import Estimate, ScalingResults
from tests.report.html.small_studies import small_scaling

pytestmark = pytest.mark.slow

Study = tuple[ScalingResults, Path]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study") / "run"
    return small_scaling(folder), folder


def test_the_run_writes_the_page_and_the_folder_gives_it_again(study: Study) -> None:
    results, folder = study
    before = (folder / "report.html").read_bytes()
    write_report(results, folder, redacted=False)
    assert (folder / "report.html").read_bytes() == before


def test_the_strongest_attacks_answer_comes_first_and_the_check_is_no_finding(study: Study) -> None:
    answers = {
        name: replace(study[0].gap_or_size[name], mean_auc=Estimate(auc, None, None))
        for name, auc in (("shokri", 0.6), ("correctness", 0.9), ("loss", 0.7), ("lira", 0.8))
    }
    results = replace(study[0], gap_or_size=answers)
    assert headline(results) == [
        answers["lira"].answer,
        answers["lira"].evidence,
        *(f"{answers[name].answer} {answers[name].evidence}" for name in ("loss", "shokri")),
    ]


def test_published_values_stand_beside_the_published_protocol_alone(study: Study) -> None:
    results, folder = study
    text = page(results, folder).render()
    assert "does not follow the published protocol" in text and "circle-open" not in text
    rows = [replace(row, hidden_width=w) for row, w in zip(results.results, (16, 64, 256), strict=True)]
    text = page(replace(results, config=ScalingConfig(), results=tuple(rows)), folder).render()
    assert "The published table and ours" in text and "circle-open" in text and "0.544" in text


def test_undefined_correlations_are_called_so(study: Study) -> None:
    results, folder = study
    whole, *others = results.gap_or_size["lira"].over
    pearson = replace(whole.coefficients["pearson"], gap=Estimate(None, None, None))
    over = (replace(whole, coefficients={**whole.coefficients, "pearson": pearson}), *others)
    lira = replace(results.gap_or_size["lira"], over=over)
    changed = replace(results, gap_or_size={**results.gap_or_size, "lira": lira})
    before, after = (page(r, folder).render().count(">undefined</td>") for r in (results, changed))
    assert after == before + 1


def test_without_reference_models_the_page_says_that_lira_is_not_run(study: Study) -> None:
    results, folder = study
    assert "LiRA is not run" not in page(results, folder).render()
    config = replace(results.config, n_reference=0)
    assert "LiRA is not run" in page(replace(results, config=config), folder).render()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (PRESETS["published"], "leakscope study scaling --preset published --out runs/again"),
        (PRESETS["decisive"], "--preset decisive --out"),
        (
            replace(PRESETS["published"], hidden_widths=(4, 8), seed=7),
            "--preset published --widths 4,8 --seed 7",
        ),
        (ScalingConfig(), "--preset published --n-initializations 1 --no-published-seeds --out"),
    ],
)
def test_the_command_asks_for_the_same_study(config: ScalingConfig, expected: str) -> None:
    assert expected in str(command(config))
