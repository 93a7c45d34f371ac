"""The attack, signal and dataset of examples/own_attack.py work through every door, from one file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import leakscope
from leakscope.attacks import resolve
from leakscope.bank.bank import Bank
from leakscope.compare.compare import compare
from leakscope.data.predictions import Predictions
from leakscope.errors import BankMismatchError
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.testing import check_attack

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIGNAL = "own_attack:top_ratio"


@pytest.fixture(autouse=True)
def examples_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(EXAMPLES)


def expected_signal(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    ordered = np.sort(logits, axis=-1)
    sign = np.where(logits.argmax(axis=-1) == labels, 1, -1)
    return sign * (ordered[..., -1] - ordered[..., -2])


def test_the_attack_meets_the_contract() -> None:
    check_attack(resolve("own_attack:Excess"))
    check_attack(resolve("own_attack:Excess(weight=0.5)"))


def by_forest():
    from sklearn.ensemble import RandomForestClassifier

    return EstimatorRecipe(RandomForestClassifier(n_estimators=10), processes=1)


def class_means(records, indices, seed):
    x, y = records.features[indices], records.labels[indices]
    means = np.stack([x[y == c].mean(axis=0) if (y == c).any() else x.mean(axis=0) for c in range(10)])
    return lambda features: -((features[:, None] - means) ** 2).sum(axis=-1)


RECIPES = {"network": lambda: Recipe(epochs=2), "estimator": by_forest,
           "function": lambda: FunctionRecipe(class_means)}  # fmt: skip


def check_run(folder: Path, labels: np.ndarray, logits: np.ndarray | None = None) -> None:
    """The bank holds the signal, and the results hold the attack."""
    bank = Bank.open(folder)
    assert not bank.damage()
    assert (folder / "signals" / "own_attack-top_ratio.npy").is_file()
    signals = bank.signals()
    expected = expected_signal(signals.last("logits") if logits is None else logits, labels)
    stored = signals.last(SIGNAL) if logits is None else signals.last(SIGNAL)[0]
    np.testing.assert_allclose(stored, expected, rtol=1e-5, atol=1e-5)
    assert {"loss", "excess(weight=0.5)"} <= set(json.loads((folder / "results.json").read_text())["attacks"])


@pytest.mark.parametrize("recipe", RECIPES)
def test_attack_signal_and_dataset_work_however_models_are_trained(recipe: str, tmp_path: Path) -> None:
    records = leakscope.load("own_attack:noisy_digits", n_records=200)
    attacks = ["loss", resolve("own_attack:Excess(weight=0.5)")]
    settings = {"models": 4, "attacks": attacks, "signals": ["logits"], "device": "cpu"}
    leakscope.audit(records, RECIPES[recipe](), tmp_path / "run", **settings)
    check_run(tmp_path / "run", records.labels)


def test_judge_and_compare_know_attack_signal_and_dataset(tmp_path: Path) -> None:
    records = leakscope.load("own_attack:noisy_digits", n_records=120)
    for name, epochs in (("first", 1), ("second", 3)):
        settings = {"models": 8, "attacks": ["own_attack:Excess(weight=0.5)"], "device": "cpu"}
        leakscope.audit(records, Recipe(epochs=epochs), tmp_path / name, **settings)
    leakscope.open_run(tmp_path / "first").judge("own_attack:Excess(weight=0.2)")
    judged = json.loads((tmp_path / "first" / "results.json").read_text())
    assert {"excess(weight=0.5)", "excess(weight=0.2)"} <= set(judged["attacks"])
    compare([tmp_path / "first", tmp_path / "second"], tmp_path / "compared")
    (run,) = json.loads((tmp_path / "compared" / "results.json").read_text())["comparisons"]
    assert "excess(weight=0.5)" in {figure["attack"] for figure in run["leakage"]}


def test_they_work_on_saved_predictions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 100)
    predictions = Predictions(
        logits=rng.normal(size=(100, 3)).astype(np.float32),
        labels=labels,
        ids=np.arange(100).astype(str),
        is_member=rng.random(100) < 0.5,
        reference_logits=rng.normal(size=(4, 100, 3)).astype(np.float32),
        reference_in_mask=np.zeros((4, 100), dtype=np.bool_),
    )
    attacks = ["loss", "own_attack:Excess(weight=0.5)"]
    leakscope.audit(leakscope.SavedPredictions(predictions), out=tmp_path / "run", attacks=attacks)
    check_run(tmp_path / "run", labels, predictions.logits)


def test_a_changed_signal_is_another_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = leakscope.load("gaussian", n_samples=60)

    def run(expression: str) -> None:
        source = f"def value(logits, labels):\n    return {expression}\n"
        (tmp_path / "changing_signal.py").write_text(source)
        sys.modules.pop("changing_signal", None)
        signals = ["changing_signal:value"]
        leakscope.audit(records, Recipe(epochs=1), tmp_path / "run", models=4, signals=signals, device="cpu")

    run("logits.amax(-1)")
    with pytest.raises(BankMismatchError, match="module changing_signal has changed"):
        run("-logits.amin(-1)")


def test_the_script_of_an_attack_can_be_run_itself(tmp_path: Path) -> None:
    """What a running script defines is stored under the name that others import it by."""
    import subprocess

    script = tmp_path / "my_script.py"
    script.write_text(
        "from leakscope.attacks import Attack, resolve, spec_of\n"
        "class Mine(Attack):\n"
        "    name = 'mine'\n"
        "    needs = ('loss',)\n"
        "    def score(self, block):\n"
        "        return -block.of_targets('loss')\n"
        "assert resolve(spec_of(Mine())) == Mine()\n"
        "print(spec_of(Mine()))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "my_script:Mine\n"
