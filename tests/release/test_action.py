"""The GitHub Action: its steps run here as a runner would run them, in a small audit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.test_pipeline import write_predictions
from tests.release.environments import link_packages

yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (pip install 'leakscope[dev]')")

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


class Runner:
    """A GitHub runner, as far as the action needs one."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder, self.temp = folder, folder / "temp"
        self.temp.mkdir(exist_ok=True)
        self.summary, self.outputs_file = folder / "step-summary.md", folder / "output"
        defaults = {name: given["default"] for name, given in ACTION["inputs"].items()}
        unknown = inputs.keys() - {name.replace("-", "_") for name in defaults}
        assert not unknown, unknown
        self.inputs = {name: inputs.get(name.replace("-", "_"), value) for name, value in defaults.items()}

    def run(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """One step, in the shell that GitHub uses."""
        own = {name: EXPRESSION.sub(self._value, value) for name, value in step["env"].items()}
        given = {
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.outputs_file),
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder, env={**os.environ, **given, **own}, capture_output=True, text=True,
        )  # fmt: skip

    def _value(self, match: re.Match[str]) -> str:
        if match[1] == "github.action_path":
            return str(ROOT)
        where, _, name = match[1].partition(".")
        assert where == "inputs"
        return self.inputs[name]

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.outputs_file.read_text().splitlines())


def install_here(runner: Runner) -> None:
    """The program of this process, where the first step would install it."""
    program = runner.temp / "leakscope" / "bin" / "leakscope"
    program.parent.mkdir(parents=True)
    call = "from leakscope.cli.main import main; main()"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{call}" "$@"\n')
    program.chmod(0o755)


def test_no_input_reaches_a_shell_as_code() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert not EXPRESSION.search(step["run"]), "inputs are passed as environment variables"
        assert step["shell"] == "bash"
    assert {name: given.keys() for name, given in ACTION["inputs"].items() if "default" not in given} == {}


def test_every_output_is_written_and_every_input_is_used() -> None:
    text = "\n".join(value for step in STEPS for value in step["env"].values())
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(ACTION["inputs"])
    named = {EXPRESSION.sub(r"\1", given["value"]) for given in ACTION["outputs"].values()}
    assert named == {f"steps.audit.outputs.{name}" for name in ACTION["outputs"]}
    script = next(step["run"] for step in STEPS if step.get("id") == "audit")
    assert all(f'echo "{name}=' in script for name in ACTION["outputs"])


@pytest.mark.slow
def test_the_audit_step_ends_as_the_gate_does_and_fills_the_summary(tmp_path: Path) -> None:
    write_predictions(tmp_path / "my model; echo injected.npz", 3.0)
    runner = Runner(
        tmp_path, predictions="my model; echo injected.npz", gate="release", arguments="--fpr\n0.1\n"
    )
    install_here(runner)
    failed = runner.run(STEPS[1])
    assert failed.returncode == 1, failed.stderr
    assert "\ninjected" not in failed.stdout
    assert runner.outputs["exit-code"] == "1"
    assert "**Outcome: failed**" in runner.summary.read_text()
    assert ElementTree.parse(runner.outputs["junit"]).getroot().attrib["failures"] == "3"
    assert (tmp_path / runner.outputs["report"]).name == "report-redacted.html"
    assert (tmp_path / runner.outputs["report"]).exists()
    runner.inputs["predictions"] = "missing.npz"
    earlier = runner.summary.read_text()
    wrong = runner.run(STEPS[1])
    assert wrong.returncode == 2
    assert runner.summary.read_text() == earlier, "the summary of an earlier audit was shown again"


@pytest.mark.slow
def test_an_inconclusive_audit_fails_the_job_unless_it_may_not(tmp_path: Path) -> None:
    write_predictions(tmp_path / "model.npz", 0.0)
    runner = Runner(tmp_path, predictions="model.npz", gate="release", redact="false")
    install_here(runner)
    assert runner.run(STEPS[1]).returncode == 4
    runner.inputs["fail-on-inconclusive"] = "false"
    allowed = runner.run(STEPS[1])
    assert allowed.returncode == 0
    assert "::warning title=leakscope::" in allowed.stdout
    assert runner.outputs["exit-code"] == "4"


@pytest.mark.slow
def test_the_first_step_installs_this_repository(tmp_path: Path) -> None:
    """Without dependencies, which would take minutes: pip is told so by the input for its arguments."""
    pytest.importorskip("hatchling", reason="hatchling is not installed (pip install 'leakscope[dev]')")
    (tmp_path / "links").mkdir()
    link_packages(tmp_path / "links", ["hatchling"])
    runner = Runner(
        tmp_path, python=sys.executable, pip_arguments="--no-deps\n\n--no-build-isolation\n--no-compile\n"
    )
    step = {**STEPS[0], "env": {**STEPS[0]["env"], "PYTHONPATH": str(tmp_path / "links")}}
    installed = runner.run(step)
    assert installed.returncode == 0, installed.stderr
    program = runner.temp / "leakscope" / "bin" / "leakscope"
    assert program.exists()
    packages = next((runner.temp / "leakscope" / "lib").glob("python*/site-packages/leakscope"))
    assert (packages / "cli" / "main.py").read_text() == (ROOT / "src/leakscope/cli/main.py").read_text()
