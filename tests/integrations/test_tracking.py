"""The contract of all trackers: a missing one is named, a failing one costs a warning and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import leakscope
from leakscope.errors import InputError
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations import tracking
from leakscope.integrations.tracked_run import TrackedRun
from leakscope.integrations.tracking import TRACKERS, TrackingError
from tests.cli.command import Outcome, run_command

CONFIG = """
[data]
dataset = "gaussian"
options = {n_samples = 60}

[training]
epochs = 1

[population]
models = 8

[attacks]
names = ["loss"]

[gate]
max_auc = 0.01
"""


class Tracker:
    """Stands in for one: remembers what it is sent, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.sent = error, list[TrackedRun]()

    def log(self, run: TrackedRun, into: str | None) -> str:
        print("printed by a library")
        if self.error is not None:
            raise self.error
        self.sent.append(run)
        return f"{into} 1"


def install(monkeypatch: pytest.MonkeyPatch, tracker: Tracker, name: str = "mlflow") -> None:
    module: Any = ModuleType(f"leakscope.integrations.{name}")
    module.log = tracker.log
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(tracking, "find_spec", lambda _: object())


def audit(folder: Path, *options: str) -> Outcome:
    (folder / "audit.toml").write_text(CONFIG)
    return run_command("audit", folder / "audit.toml", "--out", folder / "run", *options)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tracker_that_is_not_installed_is_named_with_the_command_before_anything_is_trained(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "find_spec", lambda _: None)
    done = audit(tmp_path, "--track", name)
    assert (done.exit_code, done.out) == (2, "")
    expected = f"leakscope: {name} is not installed; install it with: pip install 'leakscope[{name}]'\n"
    assert done.err == expected
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_refused(population: Verdict) -> None:
    with pytest.raises(InputError, match="to='mlfow' is not a tracker; did you mean 'mlflow'"):
        leakscope.log_run(population, to="mlfow")


@pytest.mark.parametrize("kind", ["verdict", "run", "path", "text"])
def test_a_verdict_a_run_or_a_folder_is_logged(
    kind: str, population: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tracker := Tracker())
    folder = population.folder
    given = {"verdict": population, "run": leakscope.open_run(folder), "path": folder, "text": str(folder)}
    assert leakscope.log_run(given[kind], to="mlflow", into="here") == "here 1"
    assert tracker.sent[0].tags["leakscope/rating"] == population.rating


def test_what_a_tracker_raises_is_one_error(population: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Tracker(ValueError("no answer\nand a long story")))
    with pytest.raises(TrackingError, match=r"^mlflow did not take the run \(no answer\)$"):
        leakscope.log_run(population, to="mlflow")


def test_a_failing_tracker_changes_neither_verdict_nor_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Tracker(ConnectionError("the server is down")))
    done = audit(tmp_path, "--track", "mlflow")
    assert done.exit_code == 1  # of the gate
    assert "Gate failed" in done.out and "printed by a library" not in done.out
    warning = done.err.splitlines()[-1]
    assert warning.startswith(
        "leakscope: warning: mlflow did not take the run (the server is down); the audit"
    )
    assert warning.endswith(f"try again with: leakscope track {tmp_path / 'run'} mlflow")
    assert run_command("verify", tmp_path / "run").exit_code == 0

    install(monkeypatch, again := Tracker())
    done = run_command("track", tmp_path / "run", "mlflow", "--into", "x")
    assert (done.exit_code, done.out) == (0, f"logged {tmp_path / 'run'} to mlflow: x 1\n")
    assert [path.name for path in again.sent[0].files] == ["report.html", "results.json"]


def test_json_on_standard_output_stays_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Tracker(), "wandb")
    done = audit(tmp_path, "--json", "--redact", "--track", "wandb")
    assert json.loads(done.out)["experiment"] == "audit"
    assert "leakscope: logged to wandb: None 1" in done.err


def test_several_trackers_get_the_run_although_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Tracker(RuntimeError("no")), "mlflow")
    install(monkeypatch, good := Tracker(), "tensorboard")
    done = audit(tmp_path, "--redact", "--quiet", "--track", "mlflow,tensorboard")
    assert "mlflow did not take the run" in done.err and len(good.sent) == 1
    assert [path.name for path in good.sent[0].files] == ["report-redacted.html"]


def test_the_command_track_fails_when_the_tracker_does(
    population: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Tracker(ConnectionError("down")))
    done = run_command("track", population.folder, "mlflow")
    assert (done.exit_code, done.out) == (3, "")
    assert done.err.endswith("leakscope: mlflow did not take the run (down)\n")


def test_only_a_run_folder_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Tracker())
    with pytest.raises(InputError, match="is not a run folder"):
        leakscope.log_run(tmp_path, to="mlflow")
