"""The page of an attack on one given model: the truth first where it is known, curves where scores are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.single_model.page import command, headline, page, write_page
from leakscope.single_model.page_roc import PRIVATE, VALIDATION, scored
from leakscope.stats.roc import auc
from tests.report.html.small_studies import small_ensemble

Study = tuple[dict[str, Any], Path]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study") / "run"
    return small_ensemble(folder), folder


def test_the_run_writes_the_page_and_the_folder_gives_it_again(study: Study) -> None:
    _, folder = study
    before = (folder / "report.html").read_bytes()
    assert write_page(folder).read_bytes() == before


def test_the_truth_about_the_chosen_attacker_comes_first(study: Study) -> None:
    results, _ = study
    found = results["private_truth"][results["chosen"]]["auc"]
    lead, second, *_ = headline(results)
    assert lead.startswith(f"On the private records {results['chosen']}")
    assert f"{100 * found['value']:.1f}% of the time (95% interval {100 * found['low']:.1f}%" in lead
    assert "validation" in second


def test_curves_are_made_from_the_stored_scores(study: Study) -> None:
    results, folder = study
    found = scored(results, folder)
    assert [(curve.name, curve.part) for curve in found] == [
        (name, part) for part in (VALIDATION, PRIVATE) for name in results["attackers"]
    ]
    for curve in found:
        stored = results["attackers" if curve.part == VALIDATION else "private_truth"][curve.name]
        np.testing.assert_allclose(auc(curve.scores, curve.is_member), stored["auc"]["value"])


def test_without_the_truth_the_page_claims_nothing_about_private_records(
    study: Study, tmp_path: Path
) -> None:
    results, folder = study
    shutil.copytree(folder, tmp_path / "attack")
    (tmp_path / "attack" / "private_truth.npy").unlink()
    bare = {
        name: value for name, value in results.items() if name not in ("private_truth", "target", "published")
    }
    bare["config"] = {"attacker": "best", "validation_share": 0.4, "seed": 0, "public_sha256": "c" * 64}
    text = page(bare, tmp_path / "attack")
    assert "there is no curve for them" in text and "Validation, truth" not in text
    assert "their membership is not looked at" in text and "leakscope attack --public-predictions" in text
    assert headline(bare)[0].startswith(f"{bare['chosen']} ranks a member above")


def test_without_scores_there_is_no_curve_and_the_page_says_so(study: Study, tmp_path: Path) -> None:
    results, folder = study
    (tmp_path / "results.json").write_bytes((folder / "results.json").read_bytes())
    assert "no curve can be drawn" in page(results, tmp_path)
    assert "no curve can be drawn" not in page(results, folder)


def test_what_few_records_cannot_resolve_is_called_so(study: Study) -> None:
    text = page(*study)
    assert "TPR at 0.1% FPR" in text and "not resolvable" in text


def test_the_command_asks_for_the_same_study(study: Study) -> None:
    words = str(command(study[0]))
    assert words.startswith(
        "leakscope study ensemble --preset small --n-public 200 --n-private 160 --width 16"
    )
