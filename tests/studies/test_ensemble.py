from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.bank.bank import Bank
from leakscope.bank.results import results_schema
from leakscope.data.registry import load
from leakscope.errors import BankMismatchError, InputError
from leakscope.single_model.ensemble.attackers import ForestAttacker, MlpAttacker
from leakscope.stats.roc import auc
from leakscope.studies.ensemble.config import PRESETS, EnsembleConfig, configured
from leakscope.studies.ensemble.report import comparison
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.ensemble.study import make_case, query_target, recompute, run
from tests.cli.command import run_command
from tests.single_model.test_results import undescribed

SMALL = (ForestAttacker(n_trees=5), MlpAttacker(max_iterations=5))
CONFIG = EnsembleConfig(n_public=200, n_private=160, width=16, epochs=3, validation_share=0.4)


Study = tuple[Path, EnsembleResults]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    out = tmp_path_factory.mktemp("study") / "run"
    return out, run(CONFIG, out, device="cpu", attackers=SMALL)


def test_half_of_each_part_are_members_and_nobody_is_in_both() -> None:
    case = make_case(CONFIG, load("digits"))
    assert len(case.records) == 360 and len(set(case.records.ids)) == 360
    assert case.is_member[:200].sum() == 100 and case.is_member[200:].sum() == 80


def test_the_default_takes_all_digits() -> None:
    case = make_case(EnsembleConfig(), load("digits"))
    assert case.n_public == 898 and len(case.records) == 1796


def test_the_submission_is_judged_by_the_private_truth(study: Study) -> None:
    out, results = study
    case = make_case(CONFIG, load("digits"))
    with (out / "submission.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["ids"] for row in rows] == list(case.records.ids[200:])
    expected = auc(np.array([float(row["score"]) for row in rows]), case.is_member[200:])
    assert results.private_truth[results.chosen].auc.value == pytest.approx(expected)


def test_the_target_is_trained_on_the_members_only(study: Study) -> None:
    out, results = study
    case = make_case(CONFIG, load("digits"))
    bank = Bank.open(out / "target")
    np.testing.assert_array_equal(bank.design().in_mask, case.is_member[None])
    public, private = query_target(case, bank)
    assert private.is_member is None and public.is_member is not None
    correct = np.concatenate([p.logits.argmax(1) == p.labels for p in (public, private)])
    assert results.target.members == pytest.approx(correct[case.is_member].mean())


def test_every_number_comes_again_from_the_folder(study: Study) -> None:
    out, results = study
    assert recompute(out, CONFIG) == results
    scores = np.load(out / "validation" / "forest.npy")
    np.save(out / "validation" / "forest.npy", -scores)
    assert recompute(out, CONFIG).attackers != results.attackers
    np.save(out / "validation" / "forest.npy", scores)


def test_the_schema_describes_every_property_and_real_results_fit_it(study: Study) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = results_schema(EnsembleResults, "study ensemble")
    assert list(undescribed(schema)) == []
    stored = json.loads((study[0] / "results.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(stored)
    del stored["private_truth"]["forest"]["auc"]["low"]
    assert not jsonschema.Draft202012Validator(schema).is_valid(stored)


def test_the_report_stands_beside_the_published_figures(study: Study) -> None:
    out, results = study
    rows = comparison(results).rows
    assert [row[:2] for row in rows[:2]] == [["forest", "AUC"], ["", "TPR at 5% FPR"]]
    assert rows[0][-2:] == ["0.6715", "0.6343"] and rows[3][-2:] == ["15.14%", "14.50%"]
    report = (out / "report.md").read_text()
    assert "Truth and publication" in report and "0.6343" in report


def test_a_second_run_resumes_and_another_is_refused(study: Study) -> None:
    out, results = study
    assert run(CONFIG, out, device="cpu", attackers=SMALL) == results
    with pytest.raises(BankMismatchError, match="seed"):
        run(replace(CONFIG, seed=1), out, device="cpu", attackers=SMALL)


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


def test_the_full_case_is_a_resnet_on_cifar10() -> None:
    config = PRESETS["full"]
    assert (config.dataset, config.net, config.recipe.net) == ("cifar10", "resnet18", "resnet18")
    assert config.recipe.net_options == (("channels", 64),)


def test_auto_needs_a_gpu_and_the_images_for_the_full_case(tmp_path: Path) -> None:
    assert configured("auto", {}, "cpu", tmp_path) == PRESETS["small"]
    assert configured("auto", {"net": "cnn"}, "cpu", tmp_path) == replace(PRESETS["small"], net="cnn")


@pytest.mark.parametrize("changes", [{"net": "cnn"}, {"dataset": "cifar100"}, {"seed": 3}])
def test_a_named_preset_stays_whatever_is_changed(changes: dict[str, Any]) -> None:
    """A net on top of the full preset once ran on digits, as if no preset had been named."""
    assert configured("full", changes) == replace(PRESETS["full"], **changes)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(InputError, match="preset='large': choose small, full or auto"):
        configured("large", {})


def test_the_command_changes_the_preset_it_is_given(tmp_path: Path) -> None:
    sizes = ("--n-public", "80", "--n-private", "80", "--epochs", "2", "--attacker", "lightgbm")
    case = ("--preset", "full", "--dataset", "digits", "--net", "mlp", "--device", "cpu")
    done = run_command("study", "ensemble", *case, *sizes, "--out", tmp_path / "run", "--json")
    config = json.loads(done.out)["config"]
    assert (config["dataset"], config["net"]) == ("digits", "mlp")
    assert (config["lr"], config["batch_size"]) == (PRESETS["full"].lr, PRESETS["full"].batch_size)
