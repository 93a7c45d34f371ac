from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from leakscope.bank.bank import Bank
from leakscope.bank.results import results_schema
from leakscope.data.registry import load
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.single_model.ensemble.attackers import ForestAttacker, MlpAttacker, fit
from leakscope.stats.roc import auc
from leakscope.studies.ensemble.config import PRESETS, EnsembleConfig, configured
from leakscope.studies.ensemble.outputs import read_outputs
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.ensemble.study import make_case, recompute, record, run, run_from
from leakscope.studies.ensemble.tables import comparison
from tests.cli.command import run_command
from tests.single_model.test_results import undescribed

SMALL = (ForestAttacker(n_trees=5), MlpAttacker(max_iterations=5))
CONFIG = EnsembleConfig(
    dataset="digits", n_public=200, n_private=160, width=16, epochs=3, validation_share=0.4
)


Study = tuple[Path, EnsembleResults]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    out = tmp_path_factory.mktemp("study") / "run"
    return out, run(CONFIG, out, device="cpu", attackers=SMALL)


def test_half_of_each_part_are_members_and_nobody_is_in_both() -> None:
    case = make_case(CONFIG, load("digits"))
    assert len(case.records) == 360 and len(set(case.records.ids)) == 360
    assert case.is_member[:200].sum() == 100 and case.is_member[200:].sum() == 80


def test_the_default_takes_all_records() -> None:
    case = make_case(EnsembleConfig(), load("overlapping"))
    assert case.n_public == 2000 and len(case.records) == 4000


def test_the_submission_is_judged_by_the_private_truth(study: Study) -> None:
    out, results = study
    case = make_case(CONFIG, load("digits"))
    with (out / f"submission_{results.chosen}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["ids"] for row in rows] == list(case.records.ids[200:])
    expected = auc(np.array([float(row["score"]) for row in rows]), case.is_member[200:])
    assert results.private_truth[results.chosen].auc.value == pytest.approx(expected)


def test_the_target_is_trained_on_the_members_only(study: Study) -> None:
    out, results = study
    case = make_case(CONFIG, load("digits"))
    bank = Bank.open(out / "target")
    np.testing.assert_array_equal(bank.design().in_mask, case.is_member[None])
    outputs = read_outputs(out / "outputs.npz")
    public, private = outputs.public(), outputs.private()
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
    assert rows[0][-2:] == ["0.6715", "0.6343"] and rows[4][-2:] == ["15.14%", "14.50%"]
    assert rows[2][-1] == "mean 0.4450, sd 0.1227, 0.0073 to 0.6209"
    report = (out / "report.md").read_text()
    assert "Published claims" in report
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


def test_one_submission_per_attacker(study: Study) -> None:
    out, results = study
    assert set(results.submission_sha256) == {"forest", "mlp"}
    for name in results.attackers:
        with (out / f"submission_{name}.csv").open() as file:
            scores = [float(row["score"]) for row in csv.DictReader(file)]
        spread = results.attackers[name].private
        assert (min(scores), max(scores)) == (spread.low, spread.high)
        assert (np.mean(scores), np.std(scores)) == pytest.approx((spread.mean, spread.sd))
    assert not (out / "submission.csv").exists()


def test_the_attack_from_the_recorded_outputs_gives_the_same_results(study: Study, tmp_path: Path) -> None:
    """The way of the full case: the target on a GPU machine, the attack at home."""
    out, results = study
    recorded = record(CONFIG, tmp_path / "gpu", device="cpu")
    left = {path.name for path in (tmp_path / "gpu").iterdir()}
    assert left == {"outputs.npz", "run.json", "target"}
    assert recorded.read_bytes() == (out / "outputs.npz").read_bytes()
    again = run_from(recorded, tmp_path / "home", {}, SMALL)
    assert again == results
    assert not (tmp_path / "home" / "target").exists()
    assert run_command("verify", tmp_path / "home").exit_code == 0
    for name in ("submission_mlp.csv", "report.md", "results.json"):
        assert (tmp_path / "home" / name).read_bytes() == (out / name).read_bytes()


def test_the_commands_record_on_one_machine_and_attack_on_another(tmp_path: Path) -> None:
    sizes = ("--n-public", "80", "--n-private", "80", "--epochs", "2", "--device", "cpu")
    gpu, home = tmp_path / "gpu", tmp_path / "home"
    done = run_command("study", "ensemble", "--preset", "small", *sizes, "--record-only", "--out", gpu)
    assert done.exit_code == 0 and f"--from {gpu / 'outputs.npz'}" in done.out
    attack = ("study", "ensemble", "--from", gpu / "outputs.npz", "--attacker", "lightgbm")
    done = run_command(*attack, "--entropy", "adjusted", "--json", "--out", home)
    assert (done.exit_code, done.err) == (0, "")
    printed = json.loads(done.out)
    assert printed["config"]["entropy"] == "adjusted" and "adjusted_entropy" in printed["features"]
    both = run_command(*attack, "--record-only", "--out", tmp_path / "both")
    assert both.exit_code == 2 and "exclude each other" in both.err


def test_rounding_the_outputs_costs_nothing_that_matters(study: Study) -> None:
    exact = np.asarray(Bank.open(study[0] / "target").signals().last("logits")[0])
    rounded = read_outputs(study[0] / "outputs.npz").whole()
    assert rounded.is_member is not None
    losses = [-np.log(softmax(z, axis=1)[np.arange(len(z)), rounded.labels]) for z in (exact, rounded.logits)]
    aucs = [auc(-loss, rounded.is_member) for loss in losses]
    assert aucs[0] == pytest.approx(aucs[1], abs=5e-4)


def test_a_recorded_target_cannot_be_changed_but_the_attack_can(study: Study, tmp_path: Path) -> None:
    file = study[0] / "outputs.npz"
    with pytest.raises(InputError, match=r"epochs=5: the target in .* has already been trained"):
        run_from(file, tmp_path / "x", {"epochs": 5}, SMALL)
    other = run_from(file, tmp_path / "y", {"gradient": "true_logit", "validation_share": 0.3}, SMALL)
    assert other.config == replace(CONFIG, gradient="true_logit", validation_share=0.3)
    assert other.target == study[1].target and other.split != study[1].split


@pytest.mark.parametrize("harm", ["cut", "array", "config"])
def test_a_damaged_file_of_outputs_is_refused_in_one_line(study: Study, tmp_path: Path, harm: str) -> None:
    file = tmp_path / "outputs.npz"
    content = (study[0] / "outputs.npz").read_bytes()
    if harm == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:
        arrays = dict(np.load(study[0] / "outputs.npz"))
        if harm == "array":
            del arrays["is_public"]
        else:
            arrays["training"] = np.frombuffer(b'{"config": {"net": 3}}', dtype=np.uint8)
        np.savez(file, **arrays)
    done = run_command("study", "ensemble", "--from", file, "--out", tmp_path / "run")
    assert done.exit_code != 0 and "outputs.npz" in done.err and len(done.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_outputs_that_are_not_the_banks_are_noticed(study: Study, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(study[0], tmp_path / "run"))
    arrays = dict(np.load(folder / "outputs.npz"))
    arrays["logits"] = arrays["logits"] + np.float16(1)
    np.savez(folder / "outputs.npz", **arrays)
    with pytest.raises(CorruptBankError, match="does not hold the outputs of the target's bank"):
        recompute(folder, CONFIG)


def test_each_feature_is_judged_in_the_stated_direction(study: Study) -> None:
    outputs = read_outputs(study[0] / "outputs.npz")
    probability = softmax(outputs.logits.astype(np.float64), axis=1)
    rows = np.arange(len(outputs.labels))
    features = study[1].features
    assert len(features) == 11
    for name, score in {
        "true_prob": probability[rows, outputs.labels],
        "loss": np.log(probability[rows, outputs.labels]),
        "max_prob": probability.max(axis=1),
        "entropy": (probability * np.log(probability)).sum(axis=1),
        "correct": (probability.argmax(axis=1) == outputs.labels).astype(float),
    }.items():
        assert features[name].value == pytest.approx(auc(score, outputs.is_member), abs=1e-4), name


@pytest.mark.slow
def test_the_default_cpu_case_leaks_enough_to_say_something(tmp_path: Path) -> None:
    """Validation intervals of all three attackers exclude guessing."""
    results = run(PRESETS["small"], tmp_path / "run", device="cpu")
    assert all(one.auc.low > 0.55 for one in results.attackers.values())
    assert all(one.auc.low > 0.55 for one in results.private_truth.values())


def test_a_net_that_does_not_take_the_records_is_refused_before_training(tmp_path: Path) -> None:
    done = run_command("study", "ensemble", "--net", "cnn", "--dataset", "digits", "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "must be images" in done.err and "use net='mlp'" in done.err
    assert "training the target" not in done.err and not (tmp_path / "run").exists()


def test_the_number_of_threads_changes_no_score() -> None:
    """Matrices large enough for BLAS to divide."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(2000, 10)).astype(np.float32), rng.integers(0, 10, 2000)
    is_member = rng.random(2000) < 0.5
    every = []
    for n in (1, 2):
        with threadpool_limits(n, user_api="blas"):
            fitted = fit(MlpAttacker(max_iterations=3), logits, labels, is_member, 0)
            every.append(fitted.scores(logits, labels).score)
    np.testing.assert_array_equal(*every)


def test_calibration_changes_what_scores_mean_but_not_what_is_learned() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(0, 4, 300)
    known = logits, labels, rng.random(300) < 0.5
    isotonic, sigmoid = (
        fit(ForestAttacker(n_trees=5), *known, 0, calibration=how).scores(logits, labels)
        for how in ("isotonic", "sigmoid")
    )
    np.testing.assert_array_equal(isotonic.uncalibrated, sigmoid.uncalibrated)
    assert len(np.unique(sigmoid.calibrated)) > len(np.unique(isotonic.calibrated))


def test_calibrations_are_compared_on_the_same_private_records(study: Study) -> None:
    out, results = study
    sigmoid, isotonic = np.load(out / "sigmoid.npy"), np.load(out / "private" / "forest.npy")[1]
    is_member = np.load(out / "private_truth.npy")
    assert [one.isotonic.fpr for one in results.calibrations] == [0.05, 0.01]
    for scores, stored in (
        (isotonic, results.calibrations[0].isotonic),
        (sigmoid, results.calibrations[0].sigmoid),
    ):
        rates = [
            (scores[is_member] >= t).mean()
            for t in np.unique(scores)
            if (scores[~is_member] >= t).mean() <= 0.05
        ]
        assert stored.value == pytest.approx(max(rates, default=0.0))
    difference = results.calibrations[0].difference
    assert difference.low is not None and difference.value is not None and difference.high is not None
    assert difference.low <= difference.value <= difference.high


def test_the_scores_file_has_every_attackers_private_scores(study: Study) -> None:
    out, results = study
    with np.load(out / "scores.npz") as file:
        assert set(file.files) == set(results.attackers)
        for name in file.files:
            np.testing.assert_array_equal(
                file[name], np.load(out / "private" / f"{name}.npy")[0].astype("f4")
            )
