from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.bank.bank import Bank
from leakscope.data.registry import load
from leakscope.errors import BankMismatchError, InputError
from leakscope.single_model.ensemble.attackers import ForestAttacker, MlpAttacker
from leakscope.stats.roc import auc
from leakscope.studies.ensemble.study import (
    PRESETS,
    EnsembleConfig,
    comparison_rows,
    fitting_preset,
    make_case,
    parts,
    recompute,
    run,
)

SMALL = (ForestAttacker(n_trees=5), MlpAttacker(max_iterations=5))
CONFIG = EnsembleConfig(n_public=200, n_private=160, width=16, epochs=3, validation_share=0.4)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("study") / "run"
    return out, run(CONFIG, out, device="cpu", attackers=SMALL)


def test_half_of_each_part_are_members_and_nobody_is_in_both() -> None:
    case = make_case(CONFIG, load("digits"))
    assert len(case.records) == 360 and len(set(case.records.ids)) == 360
    assert case.is_member[:200].sum() == 100 and case.is_member[200:].sum() == 80


def test_the_default_takes_all_digits() -> None:
    case = make_case(EnsembleConfig(), load("digits"))
    assert case.n_public == 898 and len(case.records) == 1796


def test_the_submission_is_judged_by_the_private_truth(study: tuple[Path, dict[str, Any]]) -> None:
    out, results = study
    case = make_case(CONFIG, load("digits"))
    with (out / "submission.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["ids"] for row in rows] == list(case.records.ids[200:])
    expected = auc(np.array([float(row["score"]) for row in rows]), case.is_member[200:])
    assert results["private_truth"][results["chosen"]]["auc"]["value"] == pytest.approx(expected)


def test_the_target_is_trained_on_the_members_only(study: tuple[Path, dict[str, Any]]) -> None:
    out, results = study
    case = make_case(CONFIG, load("digits"))
    bank = Bank.open(out / "target")
    np.testing.assert_array_equal(bank.design().in_mask, case.is_member[None])
    public, private = parts(case, bank)
    assert private.is_member is None and public.is_member is not None
    correct = np.concatenate([p.logits.argmax(1) == p.labels for p in (public, private)])
    assert results["target"]["members"] == pytest.approx(correct[case.is_member].mean())


def test_every_number_comes_again_from_the_folder(study: tuple[Path, dict[str, Any]]) -> None:
    out, results = study
    stored = json.loads((out / "results.json").read_text())
    assert stored == results == recompute(out, stored["config"])
    tampered = np.load(out / "validation" / "forest.npy")
    np.save(out / "validation" / "forest.npy", -tampered)
    assert recompute(out, stored["config"])["attackers"] != stored["attackers"]
    np.save(out / "validation" / "forest.npy", tampered)


def test_the_report_stands_beside_the_published_figures(study: tuple[Path, dict[str, Any]]) -> None:
    out, results = study
    rows = comparison_rows(results)
    assert [row[:2] for row in rows[:2]] == [["forest", "AUC"], ["", "TPR at 5% FPR"]]
    assert rows[0][-2:] == ["0.6715", "0.6343"] and rows[3][-2:] == ["15.14%", "14.50%"]
    report = (out / "report.md").read_text()
    assert "Against the truth" in report and "0.6343" in report


def test_a_second_run_goes_on_and_another_is_refused(study: tuple[Path, dict[str, Any]]) -> None:
    out, results = study
    assert run(CONFIG, out, device="cpu", attackers=SMALL) == results
    with pytest.raises(BankMismatchError, match="seed"):
        run(EnsembleConfig(**{**CONFIG.__dict__, "seed": 1}), out, device="cpu", attackers=SMALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_public": 5}, "n_public=5: must be at least 40"),
        ({"attacker": "tree"}, "attacker='tree'"),
        ({"n_public": 1700, "n_private": 200}, "more than the 1,797 records of digits"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_case(EnsembleConfig(**changes), load("digits"))


def test_the_full_case_is_a_resnet_on_20000_and_20000_and_wants_a_gpu_and_the_images(tmp_path: Path) -> None:
    config = EnsembleConfig(**PRESETS["full"])
    assert (config.dataset, config.net, config.recipe.net) == ("cifar10", "resnet18", "resnet18")
    assert config.recipe.net_options == (("channels", 64),)
    assert fitting_preset("cpu", tmp_path) == "small"
