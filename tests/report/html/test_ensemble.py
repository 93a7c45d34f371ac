"""The page of an attack on one given model: the truth first where it is known, curves where scores are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from leakscope.report.study_page import Command
from leakscope.single_model.page import PRIVATE, VALIDATION, headline, page, scored
from leakscope.single_model.report import ReportContext
from leakscope.stats.roc import auc
from leakscope.studies.ensemble.report import command, study_context
from leakscope.studies.ensemble.results import EnsembleResults
from tests.report.html.small_studies import small_ensemble

Study = tuple[EnsembleResults, Path]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study") / "run"
    return small_ensemble(folder), folder


def test_the_run_writes_the_page_and_the_folder_gives_it_again(study: Study) -> None:
    results, folder = study
    before = (folder / "report.html").read_bytes()
    page(results, folder, study_context(results, folder)).write(folder)
    assert (folder / "report.html").read_bytes() == before


def test_the_truth_about_the_chosen_attacker_comes_first(study: Study) -> None:
    results, folder = study
    figure = results.private_truth[results.chosen].auc
    lead, *others = headline(results, study_context(results, folder).truth)
    assert lead.startswith(f"On the private records, {results.chosen}")
    assert f"{100 * figure.value:.1f}% of the time (95% interval {100 * figure.low:.1f}%" in lead
    assert any("Accuracy of the target" in sentence for sentence in others)


def test_curves_are_made_from_the_stored_scores(study: Study) -> None:
    results, folder = study
    curves = list(scored(list(results.attackers), folder, truth_known=True))
    assert [(curve.attacker, curve.part) for curve in curves] == [
        (name, part) for part in (VALIDATION, PRIVATE) for name in results.attackers
    ]
    for curve in curves:
        figures = results.attackers if curve.part == VALIDATION else results.private_truth
        value = figures[curve.attacker].auc.value
        np.testing.assert_allclose(auc(curve.scores, curve.is_member), value)


def test_without_the_truth_the_page_claims_nothing_about_private_records(study: Study) -> None:
    results, folder = study
    context = ReportContext("one model", [("Target", "a net")], Command(("leakscope", "attack")), 0)
    report = page(results, folder, context)
    text = report.render()
    assert "so they have no curve" in text and "publication" not in text and "mlp, private" not in text
    assert "How well the private records are scored is unknown" in text
    assert headline(results)[0].startswith(f"On held-out public records, {results.chosen} ranks a member")
    assert "publication" not in report.markdown()


def test_without_scores_there_is_no_curve_and_the_page_says_so(study: Study, tmp_path: Path) -> None:
    results, folder = study
    shutil.copytree(folder / "target", tmp_path / "target")
    shutil.copy(folder / "outputs.npz", tmp_path)
    (tmp_path / "results.json").write_bytes((folder / "results.json").read_bytes())
    context = study_context(results, folder)
    assert "no curve can be drawn" in page(results, tmp_path, context).render()
    assert "no curve can be drawn" not in page(results, folder, context).render()


def test_what_few_records_cannot_resolve_is_named(study: Study) -> None:
    results, folder = study
    text = page(results, folder, study_context(results, folder)).render()
    assert "TPR at 0.1% FPR" in text and "not resolvable" in text


def test_the_command_repeats_the_study(study: Study) -> None:
    assert str(command(study[0].config)) == (
        "leakscope study ensemble --preset small --validation-share 0.4 --dataset digits --n-public 200 "
        "--n-private 160 --width 16 --epochs 3 --out runs/again"
    )
