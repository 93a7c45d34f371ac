"""Every example runs as a user would run it, with fewer models; the promised sizes are kept."""

from __future__ import annotations

import runpy
import shutil
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import leakscope
from leakscope.evaluate.verdict import Verdict
from tests.cli.command import run_command
from tests.quick_audits import short_trials

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
N_MODELS = 4


@pytest.fixture(autouse=True)
def few_models_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = leakscope.audit

    def smaller(*arguments: Any, **options: Any) -> Verdict:
        trains = not arguments or not isinstance(arguments[0], leakscope.SavedPredictions)
        return whole(*arguments, **options | ({"models": N_MODELS, "device": "cpu"} if trains else {}))

    monkeypatch.setattr(leakscope, "audit", smaller)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    monkeypatch.chdir(tmp_path)


def run_script(name: str) -> int:
    try:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    return 0


@pytest.fixture
def noise_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Opacus, for the same training: else it takes most of the time of every model."""
    engine = pytest.importorskip("opacus.privacy_engine", reason="opacus is not installed")
    monkeypatch.setattr(engine, "get_noise_multiplier", _cached(engine.get_noise_multiplier))


@cache
def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    return cache(function)


def run_config(name: str, folder: Path) -> str:
    """The config with fewer models and epochs; its other files stay where they are."""
    lines = []
    for line in (EXAMPLES / name).read_text().splitlines():
        key = line.split("=")[0].strip()
        lines.append({"models": f"models = {N_MODELS}", "epochs": "epochs = 2"}.get(key, line))
    path = folder / name
    path.write_text("\n".join(lines))
    done = run_command("audit", path, "--out", folder / "run")
    assert done.exit_code in (0, 1, 4), done
    assert done.err.startswith("training: ") or done.err == ""
    return done.out


def n_code_lines(name: str) -> int:
    """Lines without comments, blank lines and the docstring."""
    text = (EXAMPLES / name).read_text()
    if text.startswith('"""'):
        text = text.split('"""', 2)[2]
    return sum(bool(line.strip()) and not line.startswith("#") for line in text.splitlines())


def test_a_forest_in_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert n_code_lines("forest.py") <= 10
    assert run_script("forest.py") in (0, 1, 4)
    printed = capsys.readouterr().out
    assert f"{N_MODELS} models were each trained on a random half of 1,797 records (digits)." in printed
    assert "Gate " in printed


@pytest.mark.slow
@pytest.mark.parametrize(("name", "library"), [("dataframe.py", "pandas"), ("xgboost_model.py", "xgboost")])
def test_a_table_needs_at_most_four_lines_beside_your_own_script(
    name: str, library: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip(library, reason=f"{library} is not installed")
    own, _, of_audit = (EXAMPLES / name).read_text().partition("# The audit.\n")
    lines = [*(line for line in own.splitlines() if line == "import leakscope"), *of_audit.splitlines()]
    assert "leakscope" not in own.partition("import leakscope")[2] and 2 <= len(lines) <= 4
    assert run_script(name) == 0
    printed = capsys.readouterr().out
    assert f"{N_MODELS} models were each trained on a random half of 400 records (table)." in printed


@pytest.mark.slow
def test_folds_of_a_cross_validation_are_references(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_script("folds_as_references.py") == 0
    printed = capsys.readouterr().out
    assert "One model was audited by its outputs on 1,797 records (folds)" in printed
    assert "with 10 reference models." in " ".join(printed.split()) and "Inconclusive" not in printed


@pytest.mark.slow
def test_saved_predictions_in_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert n_code_lines("predictions.py") <= 3
    run_script("make_predictions.py")
    assert run_script("predictions.py") == 0
    printed = capsys.readouterr().out
    assert "One model was audited by its outputs on 1,797 records (predictions)" in printed
    assert "with 8 reference models." in printed
    assert run_command("verify", "runs/predictions").exit_code == 0


@pytest.mark.slow
def test_patients_with_several_visits(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    assert run_script("patients.py") == 0
    printed = capsys.readouterr().out
    assert f"{N_MODELS} models were each trained on a random half of 2,140 records (table)." in printed
    assert (
        f"{N_MODELS} models were each trained on a random half of 150 patients (2,140 records, table)."
        in printed
    )


def test_a_regression(capsys: pytest.CaptureFixture[str]) -> None:
    assert n_code_lines("regression.py") <= 10
    assert run_script("regression.py") == 0
    printed = capsys.readouterr().out
    assert f"{N_MODELS} models were each trained on a random half of 442 records (diabetes)." in printed
    assert "ranks a random member above a random non-member" in printed


def test_the_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_script("quickstart.py") == 0
    assert "records (digits)" in capsys.readouterr().out


def test_a_network_of_your_own_in_25_lines(tmp_path: Path) -> None:
    assert len((EXAMPLES / "own_net.toml").read_text().splitlines()) <= 25
    (tmp_path / "own_net.py").write_text((EXAMPLES / "own_net.py").read_text())
    assert "Gate " in run_config("own_net.toml", tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("noise_is_computed_once")
def test_a_training_loop_of_your_own_with_opacus(tmp_path: Path) -> None:
    (tmp_path / "opacus_training.py").write_text((EXAMPLES / "opacus_training.py").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns about the generator of its noise
        assert f"{N_MODELS} models were each trained" in run_config("opacus_training.toml", tmp_path)


@pytest.mark.slow
def test_differential_privacy(tmp_path: Path) -> None:
    out = " ".join(run_config("private.toml", tmp_path).split())
    assert "The models were trained with DP-SGD: epsilon = 8 at delta = 1e-05 for each record" in out


@pytest.mark.slow
def test_a_claim(tmp_path: Path) -> None:
    out = " ".join(run_config("claim.toml", tmp_path).split())
    assert "The claim of epsilon = 8 at delta = 1e-05 is not testable with this budget" in out  # 4 models


def test_an_attack_a_signal_and_a_dataset_of_your_own(tmp_path: Path) -> None:
    (tmp_path / "own_attack.py").write_text((EXAMPLES / "own_attack.py").read_text())
    out = run_config("own_attack.toml", tmp_path)
    assert "noisy digits" in out and "excess" in out


@pytest.mark.parametrize(
    "name",
    [
        "digits.toml",
        "forest.toml",
        "own_table.toml",
        "regression.toml",
        pytest.param("own_pictures.toml", marks=pytest.mark.slow),
        pytest.param("canaries.toml", marks=pytest.mark.slow),
    ],
)
def test_a_config(name: str, tmp_path: Path) -> None:
    makers = {
        "own_table.toml": "make_people.py",
        "regression.toml": "make_people.py",
        "own_pictures.toml": "make_pictures.py",
    }
    if name in makers:
        maker = tmp_path / makers[name]  # writes its table or pictures beside itself
        maker.write_text((EXAMPLES / maker.name).read_text())
        runpy.run_path(str(maker))
    assert f"{N_MODELS} models were each trained" in run_config(name, tmp_path)


PLANNED_QUICKLY = ("digits.toml", "fashion_cnn.toml")
CONFIGS = [
    pytest.param(path.name, marks=() if path.name in PLANNED_QUICKLY else pytest.mark.slow)
    for path in sorted(EXAMPLES.glob("*.toml"))
]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all, with the tables and pictures that some of them read."""
    folder = tmp_path_factory.mktemp("examples") / "copy"
    shutil.copytree(EXAMPLES, folder)
    for maker in ("make_people.py", "make_pictures.py"):
        runpy.run_path(str(folder / maker))
    return folder


@pytest.mark.parametrize("name", CONFIGS)
def test_a_plan_from_any_folder(
    name: str,
    examples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A plan accepts what an audit accepts; where a download is missing, both say so in the same line."""
    short_trials(monkeypatch)
    monkeypatch.setenv("LEAKSCOPE_DATA", str(tmp_path / "empty"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    if name == "opacus_training.toml":
        request.getfixturevalue("noise_is_computed_once")
        monkeypatch.setattr(warnings, "warn", lambda *_, **__: None)  # Opacus does, about its generators
    planned = run_command("plan", examples / name)
    if name == "fashion_cnn.toml":
        assert planned.exit_code == 2
        assert "leakscope data fetch fashion-mnist" in planned.err
        assert planned.err == run_command("audit", examples / name).err
    else:
        assert (planned.exit_code, planned.err) == (0, "")
        assert "models on random halves of" in planned.out
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["monitor_torch.py", "monitor_partial_fit.py"])
def test_the_monitor_finds_flipped_labels(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert n_code_lines(name) <= 30
    assert run_script(name) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    shares = [int(line.split()[2].rstrip("%")) for line in lines]
    assert shares[1] >= 80 and shares[2] >= 80
    assert last.startswith("look at these first: ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["opacus_claim.py", "own_loop_claim.py"])
def test_a_claim_is_tested_with_six_lines_more(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name.startswith("opacus"):
        pytest.importorskip("opacus", reason="opacus is not installed")
    lines = (EXAMPLES / name).read_text().split('"""', 2)[2].splitlines()
    added = [line for line in lines if "leakscope" in line or "canaries" in line]
    assert len(added) <= 6
    assert all(line.endswith("# test") for line in added)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns about the generator of its noise
        assert run_script(name) == 0
    printed = capsys.readouterr().out
    assert "A lower bound can refute a claim, but cannot confirm one." in printed
    assert "settings of DP-SGD seen in the updates" in printed
