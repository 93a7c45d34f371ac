"""The attack, signal and dataset of examples/own_attack.py work through every door, from one file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import leakscope
from leakscope.attacks import resolve, spec_of
from leakscope.bank.bank import Bank
from leakscope.design import make_design
from leakscope.engine.local import complete_bank
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


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_signal_is_stored_and_attacked_however_models_are_trained(recipe: str, tmp_path: Path) -> None:
    records = leakscope.load("own_attack:noisy_digits", n_records=200)
    attack = resolve("own_attack:Excess(weight=0.5)")
    design = make_design("balanced", 4, len(records), seed=0)
    names = (*attack.needs, "logits")
    complete_bank(tmp_path / "bank", records, design, RECIPES[recipe](), 0, names, "cpu")
    bank = Bank.open(tmp_path / "bank")
    assert not bank.damage()
    assert (tmp_path / "bank" / "signals" / "own_attack-top_ratio.npy").is_file()
    signals = bank.signals()
    expected = expected_signal(signals.last("logits"), records.labels)
    np.testing.assert_allclose(signals.last(SIGNAL), expected, rtol=1e-5, atol=1e-5)
    scores = attack(signals, design)
    assert scores.attack == "excess(weight=0.5)" and resolve(spec_of(attack)) == attack
    assert np.isfinite(scores.values).all()


def test_a_changed_signal_is_another_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "changing_signal.py"
    records = leakscope.load("gaussian", n_samples=60)
    design = make_design("balanced", 4, 60, seed=0)

    def run(expression: str) -> Bank:
        source.write_text(f"def value(logits, labels):\n    return {expression}\n")
        sys.modules.pop("changing_signal", None)
        recipe = Recipe(epochs=1)
        return complete_bank(tmp_path / "bank", records, design, recipe, 0, ("changing_signal:value",), "cpu")

    first = run("logits.amax(-1)")
    assert list(first.identity["recipe"]["signals_sha256"]) == ["changing_signal:value"]
    with pytest.raises(BankMismatchError, match="signals_sha256"):
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
