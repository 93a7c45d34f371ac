"""An attack with an option, its signal and a dataset: one file outside the repository, in every command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from leakscope.bank.bank import Bank
from leakscope.studies.dynamics.settings import config_of
from leakscope.studies.dynamics.study import run
from tests.cli.command import run_command

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_attack.py"
ATTACK, LABEL = "strangers_file:Excess(weight=0.5)", "excess(weight=0.5)"
SIGNAL = "strangers_file:top_ratio"
CONFIG = """
[data]
dataset = "strangers_file:noisy_digits"
options = {{ n_records = 60 }}
[model]
net = "linear"
[training]
epochs = {epochs}
checkpoints = [1, 2]
[population]
models = 4
device = "cpu"
[attacks]
names = [{{ name = "strangers_file:Excess", weight = 0.5 }}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file and two configs, which differ in their epochs, with an audit of each."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "strangers_file.py").write_text(EXAMPLE.read_text().replace("own_attack:", "strangers_file:"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "path", list(sys.path))
        patched.chdir(folder)
        for name, epochs in (("first", 2), ("second", 3)):
            (folder / f"{name}.toml").write_text(CONFIG.format(epochs=epochs))
            done = run_command("audit", f"{name}.toml", "--out", name, "--quiet")
            assert done.exit_code == 0, done
        yield folder
    del sys.modules["strangers_file"]


def results_of(run: Path) -> dict:
    return json.loads((run / "results.json").read_text())


def test_an_audit_stores_the_signal_and_judge_adds_another_option(folder: Path) -> None:
    assert list(results_of(folder / "first")["attacks"]) == [LABEL]
    assert Bank.open(folder / "first").identity.records.name == "noisy digits"
    assert Bank.open(folder / "first").signals().last(SIGNAL).shape == (4, 60)
    judged = run_command("judge", "first", "--attacks", "strangers_file:Excess(weight=0.2)", "--json")
    assert list(json.loads(judged.out)["attacks"]) == [LABEL, "excess(weight=0.2)"]
    assert run_command("verify", "first", "--quiet") == (0, "", "")


def test_a_config_of_predictions_names_the_attack(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        folder / "outputs.npz", logits=rng.normal(size=(50, 3)), labels=rng.integers(0, 3, 50),
        is_member=np.arange(50) % 2 == 0, reference_logits=rng.normal(size=(4, 50, 3)),
        reference_members=rng.random((4, 50)) < 0.5,
    )  # fmt: skip
    text = f"[predictions]\nfile = 'outputs.npz'\n[attacks]\nnames = ['{ATTACK}']\n"
    (folder / "predictions.toml").write_text(text)
    done = run_command("audit", "predictions.toml", "--out", "predictions", "--json")
    assert done.exit_code == 0 and list(json.loads(done.out)["attacks"]) == [LABEL], done
    assert run_command("verify", "predictions", "--quiet") == (0, "", "")


def test_audits_are_compared_by_the_attack(folder: Path) -> None:
    done = run_command("compare", "first", "second", "--out", "compared", "--quiet")
    assert done.exit_code in (0, 1), done
    (comparison,) = results_of(folder / "compared")["comparisons"]
    assert LABEL in {figure["attack"] for figure in comparison["leakage"]}


@pytest.mark.parametrize("by", ["config", "options", "Python"])
def test_a_study_of_dynamics_decides_by_the_attack(folder: Path, by: str) -> None:
    sizes = {"models": 4, "universe": 60, "epochs": 2, "every": 1, "store_logits": False}
    if by == "Python":
        config = config_of(dataset="strangers_file:noisy_digits", attack=ATTACK, fpr=0.2, **sizes)
        run(config, folder / by, device="cpu")
    else:
        given = ("--config", "first.toml")
        if by == "options":
            given = ("--dataset", "strangers_file:noisy_digits", "--models", "4", "--universe", "60",
                     "--epochs", "2", "--every", "1", "--no-logits")  # fmt: skip
        settings = ("--attack", ATTACK, "--fpr", "0.2", "--device", "cpu", "--out", by, "--quiet")
        done = run_command("study", "dynamics", *given, *settings)
        assert done.exit_code == 0, done
    assert results_of(folder / by)["config"]["attack"] == ATTACK
    (bank,) = (folder / by / "banks").iterdir()
    assert Bank.open(bank).signals().arrays[SIGNAL].shape == (4, 2, 60)
