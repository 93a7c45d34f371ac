"""More models for a finished run: the first ones stay as they are, and a killed extension resumes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import leakscope
from leakscope.attacks.registry import default_attacks
from leakscope.data.predictions import Predictions
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.recipe import EstimatorRecipe
from leakscope.runs.verification import verify_run
from leakscope.signals.registry import CLASSIFICATION
from tests.cli.command import files_under, run_command
from tests.engine.small_population import RECIPE, contents, count_training, records, use_blocks_of

REPO = Path(__file__).resolve().parents[2]


def population(out: Path, models: int, **changes: Any) -> leakscope.Verdict:
    given = {"recipe": RECIPE, "attacks": ("loss", "lira"), "fpr": (0.1,), "device": "cpu", **changes}
    return leakscope.audit(given.pop("records", records()), out=out, models=models, **given)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folders of balanced or other populations that were extended to these numbers of models, made once."""

    @cache
    def made(*models: int, design: str = "balanced") -> Path:
        folder = tmp_path_factory.mktemp("run")
        for number in models:
            population(folder, number, design=design)
        return folder

    return made


def signals(folder: Path) -> dict[str, Any]:
    return {path.name: np.load(path) for path in sorted((folder / "signals").glob("*.npy"))}


def test_the_first_models_stay_as_they_are_and_only_new_ones_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_blocks_of(monkeypatch, 4)
    population(tmp_path, 8)
    before, design = signals(tmp_path), np.load(tmp_path / "design.npy")
    trained = count_training(monkeypatch)
    verdict = population(tmp_path, 12)
    assert trained == [[0, 1, 2, 3]]
    assert verdict.results.population.models == verdict.results.population.targets == 12
    assert len(set(verdict.results.population.seed)) == 2
    after = signals(tmp_path)
    assert before.keys() == after.keys()
    for name, values in before.items():
        assert after[name].shape[0] == 12
        assert after[name][:8].tobytes() == values.tobytes(), name
    np.testing.assert_array_equal(np.load(tmp_path / "design.npy")[:8], design)
    assert not np.array_equal(after["loss.npy"][8:], after["loss.npy"][:4])
    assert verify_run(tmp_path).problems == []


def test_a_rerun_of_an_extended_run_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    population(tmp_path, 8)
    population(tmp_path, 12)
    before, done = files_under(tmp_path), list[float]()
    trained = count_training(monkeypatch)
    population(tmp_path, 12, progress=done.append)
    assert trained == [] and sum(done) == 12
    assert files_under(tmp_path) == before


def test_extending_twice_is_extending_in_two_parts(tmp_path: Path) -> None:
    for models in (4, 8, 12):
        verdict = population(tmp_path, models)
    assert verdict.results.population.models == 12
    assert len(set(verdict.results.population.seed)) == 3
    assert json.loads((tmp_path / "parts.json").read_text())["parts"][0] == {"models": 4, "seed": 0}
    in_mask = np.load(tmp_path / "design.npy")
    for first in (0, 4, 8):
        assert (in_mask[first : first + 4].sum(axis=0) == 2).all()  # every part is balanced by itself
    assert verify_run(tmp_path).problems == []


def test_the_command_line_extends_too(tmp_path: Path) -> None:
    config = tmp_path / "digits.toml"
    config.write_text(
        "[data]\ndataset = 'digits'\n[model]\nnet = 'linear'\n[training]\nepochs = 1\n"
        "[population]\nmodels = 4\n[attacks]\nnames = ['loss']\n"
    )
    out = ("--out", tmp_path / "run", "--json")
    first = json.loads(run_command("audit", config, *out).out)
    more = run_command("audit", config, "--models", "6", *out)
    assert json.loads(more.out)["population"]["models"] == 6
    assert json.loads(more.out)["population"]["seed"][0] == first["population"]["seed"]
    fewer = run_command("audit", config, *out)
    assert fewer.exit_code == 2
    assert "models=4" in fewer.err and "holds 6 models; ask for 6 or more" in fewer.err
    assert run_command("verify", tmp_path / "run", "-q") == (0, "", "")


def test_signals_and_attacks_of_the_first_run_are_kept(tmp_path: Path) -> None:
    population(tmp_path, 4, attacks=None, signals=("entropy",))
    verdict = population(tmp_path, 8, attacks=("loss",))
    assert list(verdict.results.attacks) == [
        attack.name for attack in default_attacks("population", CLASSIFICATION)
    ]
    assert np.load(tmp_path / "signals" / "entropy.npy").shape[0] == 8


def test_an_extended_run_can_be_judged_and_merged(tmp_path: Path) -> None:
    for seed in (0, 7):
        population(tmp_path / str(seed), 4, seed=seed)
        population(tmp_path / str(seed), 6, seed=seed)
    judged = leakscope.open_run(tmp_path / "0").judge("reference")
    assert list(judged.results.attacks) == ["loss", "lira", "reference"]
    merged = leakscope.audit(
        leakscope.MergedRuns([tmp_path / "0", str(tmp_path / "7")]), out=tmp_path / "all"
    )
    assert merged.results.population.models == 12
    assert verify_run(tmp_path / "all").problems == []


REFUSED: dict[str, tuple[int, dict[str, Any], str]] = {
    "fewer models": (4, {}, "models=4: {folder} holds 8 models; ask for 8 or more"),
    "one more": (9, {"design": "bernoulli"}, "at least 2 must be added; ask for 10"),
    "another seed": (12, {"seed": 1}, "seed is 0 there, 1 now"),
    "another seed, as many models": (8, {"seed": 1}, "seed is 0 there, 1 now"),
    "other records": (12, {"records": records(seed=1)}, "records.sha256 is"),
    "another recipe": (
        12,
        {"recipe": EstimatorRecipe(KNeighborsClassifier(1), processes=1)},
        "were trained by other code (es",
    ),
    "another design": (12, {"design": "pairs"}, "design.sha256 is"),
    "a signal that is not stored": (12, {"signals": ("entropy",)}, "signals is"),
}


@pytest.mark.parametrize("is_extended", [False, True], ids=["finished", "extended"])
@pytest.mark.parametrize(("models", "changes", "named"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_extension_is_refused_and_nothing_is_moved(
    tmp_path: Path,
    runs: Callable[..., Path],
    models: int,
    changes: dict[str, Any],
    named: str,
    is_extended: bool,
) -> None:
    design = "bernoulli" if changes.get("design") == "bernoulli" else "balanced"
    shutil.copytree(runs(*(4, 8) if is_extended else (8,), design=design), tmp_path, dirs_exist_ok=True)
    before = files_under(tmp_path)
    with pytest.raises(InputError) as error:
        population(tmp_path, models, **changes)
    assert named.format(folder=tmp_path) in str(error.value)
    assert files_under(tmp_path) == before


def test_the_folder_of_another_audit_is_left_alone(tmp_path: Path) -> None:
    """Saved predictions are a bank of one model with seed 0: not the first part of any population."""
    rng = np.random.default_rng(0)
    given = Predictions(
        rng.normal(size=(24, 3)).astype(np.float32), np.arange(24) % 3, records().ids, np.arange(24) < 12
    )
    leakscope.audit(leakscope.SavedPredictions(given), out=tmp_path)
    before = files_under(tmp_path)
    with pytest.raises(BankMismatchError, match="holds a different bank"):
        population(tmp_path, 8)
    assert files_under(tmp_path) == before


@pytest.mark.parametrize("content", ["{}", '{"parts": []}', '{"parts": [{"models": "x"}]}', "nonsense"])
def test_a_damaged_list_of_parts_is_named(tmp_path: Path, runs: Callable[..., Path], content: str) -> None:
    shutil.copytree(runs(4, 8), tmp_path, dirs_exist_ok=True)
    (tmp_path / "parts.json").write_text(content)
    with pytest.raises(CorruptBankError, match=r"parts\.json is damaged"):
        population(tmp_path, 8)


def without_page(folder: Path) -> dict[str, bytes]:
    """Every file but those that say when the bank was finished."""
    return {name: content for name, content in contents(folder).items() if name != "report.html"}


def test_a_damaged_bank_of_any_part_is_repaired(tmp_path: Path, runs: Callable[..., Path]) -> None:
    shutil.copytree(runs(4, 8), tmp_path, dirs_exist_ok=True)
    before = without_page(tmp_path)
    for name in ("signals/loss.npy", "parts/0/signals/loss.npy", "parts/1/design.npy", "identity.json"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
        population(tmp_path, 8)
        assert without_page(tmp_path) == before, name


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_kill_at_any_moment_of_an_extension_changes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.audits.extension_kills", tmp_path],
        cwd=REPO, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    survived = json.loads(done.stdout)
    assert survived["4 to 8, after a move"] >= 5  # signals, design, labels, manifest, identity
    assert survived["8 to 12, after a move"] == 0  # the first part was moved by the first extension
    assert survived["8 to 12, while removing"] > survived["4 to 8, while removing"]
    for extension in ("4 to 8", "8 to 12"):
        assert min(survived[f"{extension}, {at} a rename"] for at in ("before", "after")) >= 8
