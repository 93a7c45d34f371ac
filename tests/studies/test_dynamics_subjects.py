"""Whose exposure the dynamics study follows: given outputs, a config file, other designs, dropout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from leakscope.bank.bank import Bank
from leakscope.data.registry import load
from leakscope.dynamics.complexity import nearest_neighbor_error
from leakscope.errors import InputError
from leakscope.runs.verification import verify_run
from leakscope.studies.dynamics.given_bank import read_given_bank
from leakscope.studies.dynamics.settings import Setting, config_of
from leakscope.studies.dynamics.study import run
from leakscope.train.dropout import dropout_passes
from tests.cli.command import run_command

pytestmark = pytest.mark.slow

SIZES = ("--models", "8", "--epochs", "4", "--every", "2")


@pytest.fixture
def arrays() -> dict[str, Any]:
    """Outputs of eight made-up models, who remember their members, at two checkpoints."""
    rng = np.random.default_rng(3)
    design = np.stack([rng.permutation(np.arange(8) < 4) for _ in range(60)], axis=1)
    log_odds = rng.normal(size=(8, 2, 60)) + np.array([0, 4])[:, None] * design[:, None]
    return {
        "design": design,
        "labels": rng.integers(2, size=60),
        "epochs": np.array([5, 10]),
        "log_odds": log_odds.astype(np.float16),
        "correct": log_odds > 0,
        "epistemic": rng.random((2, 60)),
    }


@pytest.mark.slow
def test_an_npz_file_is_judged_and_verified(arrays: dict[str, Any], tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "outputs.npz", **arrays)
    described = ("--dataset", "mnist", "--net", "wide_resnet", "--optimizer", "adamw")
    done = run_command(
        "study", "dynamics", "--bank", tmp_path / "outputs.npz", *described, "--out", tmp_path / "run"
    )
    assert done.exit_code == 0, done.err
    assert verify_run(tmp_path / "run").problems == []
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    single = results["runs"]["mnist-wide_resnet-adamw"]
    assert single["epochs"] == [5, 10]
    assert single["population"]["models"] == 8
    assert single["setting"]["bank"] == "outputs.npz"
    assert single["figures"]["advantage"]["value"][-1] > 0.5 > single["figures"]["advantage"]["value"][0]
    members = arrays["correct"][:, -1][arrays["design"]].mean()
    assert single["accuracy"]["members"][-1] == pytest.approx(members)
    assert {"epistemic", "loss_trace_spread", "forgetting_events"} <= set(single["hardness"])
    assert len(single["early_hardness"]["epistemic"]["spearman"]) == 2
    assert len(pl.read_parquet(tmp_path / "run" / "records.parquet")) == 60
    command = f"study dynamics --bank outputs.npz {' '.join(described)} --out"
    assert command in (tmp_path / "run" / "report.md").read_text()


def test_the_complexity_of_a_given_banks_dataset(arrays: dict[str, Any], tmp_path: Path) -> None:
    digits = load("digits").take(np.arange(60))
    np.savez(tmp_path / "outputs.npz", **{**arrays, "labels": digits.labels})
    given = read_given_bank(tmp_path / "outputs.npz")
    assert given.complexity("digits", None) == nearest_neighbor_error(digits)
    assert given.complexity("digits", None) != nearest_neighbor_error(load("digits"))
    assert given.complexity("cifar10", tmp_path) is None  # no such files
    assert given.complexity("made_up", None) is None
    np.savez(tmp_path / "others.npz", **{**arrays, "labels": 9 - digits.labels})
    assert read_given_bank(tmp_path / "others.npz").complexity("digits", None) is None  # other records
    done = run_command(
        "study",
        "dynamics",
        "--bank",
        tmp_path / "outputs.npz",
        "--dataset",
        "digits",
        "--out",
        tmp_path / "r",
    )
    assert done.exit_code == 0, done.err
    (single,) = json.loads((tmp_path / "r" / "results.json").read_text())["runs"].values()
    assert single["complexity"] == nearest_neighbor_error(digits)


def test_a_folder_with_one_file_per_checkpoint_holds_the_same(arrays: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    folder.mkdir()
    for name in ("design", "labels"):
        np.save(folder / f"{name}.npy", arrays[name])
    for k, epoch in enumerate((5, 10)):
        np.save(folder / f"log_odds_epoch{epoch:03d}.npy", arrays["log_odds"][:, k])
        np.save(folder / f"correct_epoch{epoch:03d}.npy", arrays["correct"][:, k])
        np.save(folder / f"epistemic_epoch{epoch:03d}.npy", arrays["epistemic"][k])
    np.savez(tmp_path / "outputs.npz", **arrays)
    one, other = read_given_bank(folder), read_given_bank(tmp_path / "outputs.npz")
    assert one.epochs == other.epochs
    for a, b in ((one.signals, other.signals), (one.uncertainty, other.uncertainty)):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"log_odds": None}, "lacks log_odds"),
        ({"labels": np.zeros(59, dtype=int)}, r"labels has shape \(59,\), expected \(60,\)"),
        ({"log_odds": np.zeros((8, 3, 60))}, r"log_odds has shape \(8, 3, 60\), expected \(8, 2, 60\)"),
        ({"log_odds": np.full((8, 2, 60), np.nan)}, "log_odds holds NaN"),
        ({"epochs": np.array([10, 5])}, "whole numbers of at least 1 that increase"),
        ({"design": np.full((8, 60), 2)}, "give bool"),
        ({"epistemic": np.zeros((60, 2))}, "epistemic has shape"),
        ({"log_odds": np.full((8, 2, 60), np.inf)}, "log_odds holds NaN or infinity"),
        (
            {"log_odds": np.zeros((8, 2, 60), dtype=complex)},
            "log_odds has type complex128; give real numbers",
        ),
        ({"labels": np.full(60, "a")}, "labels has type <U1; give real numbers"),
        ({"labels": np.full(60, 0.5)}, "labels are not whole numbers"),
        ({"correct": np.full((8, 2, 60), 3)}, "correct holds other values than 0 and 1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    change: dict[str, Any], complaint: str, arrays: dict[str, Any], tmp_path: Path
) -> None:
    wrong = {name: value for name, value in {**arrays, **change}.items() if value is not None}
    np.savez(tmp_path / "outputs.npz", **wrong)
    with pytest.raises(InputError, match=complaint):
        read_given_bank(tmp_path / "outputs.npz")


@pytest.mark.parametrize(
    ("file", "shape", "complaint"),
    [
        ("log_odds_epoch010.npy", (8, 59), "the files of log_odds have different shapes"),
        ("logits_epoch010.npy", (8, 60), r"logits_epoch010.npy has shape \(8, 60\)"),
    ],
)
def test_files_of_a_folder_that_do_not_fit_are_refused(
    file: str, shape: tuple[int, ...], complaint: str, arrays: dict[str, Any], tmp_path: Path
) -> None:
    for name in ("design", "labels"):
        np.save(tmp_path / f"{name}.npy", arrays[name])
    for epoch in (5, 10):
        np.save(tmp_path / f"log_odds_epoch{epoch:03d}.npy", np.zeros((8, 60)))
    np.save(tmp_path / file, np.zeros(shape))
    with pytest.raises(InputError, match=complaint):
        read_given_bank(tmp_path)


def test_options_that_the_bank_decides_are_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "outputs.npz", **arrays)
    done = run_command("study", "dynamics", "--bank", tmp_path / "outputs.npz", "--epochs", "10")
    assert done.exit_code == 2
    assert "epochs: set by the bank" in done.err


CONFIG = """
[data]
file = "people.csv"
label = "outcome"

[model]
net = "mlp"
[model.options]
width = 8

[training]
epochs = 4
batch_size = 16
optimizer = "adam"

[population]
models = 6
seed = 3
"""


OF_AN_ESTIMATOR = """
[data]
file = "people.csv"
label = "outcome"

[model]
estimator = "sklearn.linear_model:LogisticRegression"
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {**{f"x{k}": rng.normal(size=80) for k in range(4)}, "outcome": rng.integers(2, size=80)}
    )
    frame.write_csv(tmp_path / "people.csv")
    (tmp_path / "own.toml").write_text(CONFIG)
    return tmp_path / "own.toml"


def test_a_config_file_is_followed_over_its_epochs(config_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run_command(
        "study", "dynamics", "--config", config_file, "--every", "2", "--device", "cpu", "--out", out
    )
    assert done.exit_code == 0, done.err
    assert verify_run(out).problems == []
    (single,) = json.loads((out / "results.json").read_text())["runs"].values()
    assert single["epochs"] == [2, 4]
    assert (single["population"]["models"], single["population"]["records"]) == (6, 80)
    assert (single["setting"]["optimizer"], single["setting"]["seed"]) == ("adam", 3)
    assert single["setting"]["config"] == CONFIG
    identity = Bank.open(next((out / "banks").iterdir())).identity
    assert identity.recipe["net_options"] == {"width": 8}


@pytest.mark.parametrize(
    ("change", "options", "complaint"),
    [
        (("", ""), ("--net", "cnn"), "net: set by the config file"),
        (("net = ", "estimator = "), (), "follows networks over epochs"),
        (("[model]", "[outputs]\ntop_1 = true\n[model]"), (), "leave [outputs] out"),
        (("models = 6", "models = 6\nqueries = 4"), (), "leave `queries` out"),
        (("epochs = 4", "epochs = 0"), (), "epochs"),
        (("models = 6", "models = 7"), (), "models=7: a balanced design needs an even number"),
    ],
)  # fmt: skip
def test_a_config_file_that_the_study_cannot_follow(
    change: tuple[str, str], options: tuple[str, ...], complaint: str, config_file: Path, tmp_path: Path
) -> None:
    text = CONFIG.replace(*change) if change[0] else CONFIG
    if "estimator" in text:
        text = OF_AN_ESTIMATOR
    config_file.write_text(text)
    done = run_command("study", "dynamics", "--config", config_file, *options, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert complaint in done.err
    assert not (tmp_path / "run").exists()


def test_a_bernoulli_design_is_drawn_by_coins(tmp_path: Path) -> None:
    setting = {"models": 7, "universe": 80, "epochs": 2, "every": 1, "gradient_models": 0}
    results = run(config_of(design="bernoulli", **setting), tmp_path / "run", device="cpu")
    (single,) = results.runs.values()
    in_mask = Bank.open(next((tmp_path / "run" / "banks").iterdir())).design().in_mask
    counts = in_mask.sum(axis=0)
    assert len(np.unique(counts)) > 1  # of a balanced design it would be one
    assert single.population.judged_records == int(((counts > 0) & (counts < 7)).sum())
    assert verify_run(tmp_path / "run").problems == []


def test_dropout_gives_a_third_estimate_of_uncertainty(tmp_path: Path) -> None:
    setting = {"models": 6, "universe": 80, "epochs": 4, "every": 2, "gradient_models": 3}
    results = run(config_of(dropout=0.3, **setting), tmp_path / "run", device="cpu")
    (single,) = results.runs.values()
    estimates = {"epistemic", "ensemble_variance", "epistemic_dropout"}
    assert estimates <= set(single.hardness)
    assert estimates <= set(single.early_hardness)
    in_mask = Bank.open(next((tmp_path / "run" / "banks").iterdir())).design().in_mask[:3]
    stored = pl.read_parquet(tmp_path / "run" / "records.parquet")["hardness_epistemic_dropout"].to_numpy()
    np.testing.assert_array_equal(np.isnan(stored), in_mask.all(axis=0))  # only OUT models count
    assert np.nanmax(stored) > 0
    assert verify_run(tmp_path / "run").problems == []


def test_passes_differ_with_dropout_and_are_refused_without() -> None:
    import torch
    from torch import nn

    from leakscope.train.dropout import seed_dropout

    net = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    assert dropout_passes(nn.Linear(4, 3), torch.ones(5, 4), 2) is None
    seed_dropout(net, key=1)
    passes, again = (dropout_passes(net, torch.ones(5, 4), 3) for _ in range(2))
    assert passes is not None and again is not None
    assert passes.shape == (3, 5, 3)
    assert np.abs(passes[0] - passes[1]).max() > 0
    np.testing.assert_array_equal(passes, again)


def test_impossible_dropout_is_refused() -> None:
    with pytest.raises(InputError, match="dropout=1"):
        Setting(dropout=1.0)
