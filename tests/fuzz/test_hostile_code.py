"""Run folders that name code: none of it runs, wherever it lies and whatever reads the folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leakscope.audits.finished import FinishedRun
from leakscope.audits.run import audit
from leakscope.bank.run_folder import RESULTS, RUN
from leakscope.compare.compare import compare
from leakscope.errors import LeakscopeError
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.verification import verify_run
from leakscope.user_code import _OF_A_RUN
from tests.fuzz.runs import answers_into, template

OWN = """
from leakscope.attacks.thresholds import Correctness
class Mine(Correctness):
    name = "mine"
"""
READERS: dict[str, Callable[[Path], object]] = {
    "verify": lambda run: verify_run(run).problems,
    "report": rebuild_report,
    "audit": answers_into,
    "judge": lambda run: audit(FinishedRun(run), out=run, attacks=["loss"]),
    "compare": lambda run: compare([run, template()], out=run.parent / "compared"),
}
NAMES = {
    "an attack": ("evil_code:Attack", "PYTHONPATH"),
    "a classifier": ("shokri(classifier='evil_code:made')", "PYTHONPATH"),
    "a module of Python that acts when it is imported": ("antigravity:Attack", "was not imported"),
    "a function of Python": ("os:system", "a module of Python's standard library; it was not imported"),
    "a program of Python": ("leakscope.__main__:Attack", "was not imported"),
    "a function that is called": ("shokri(classifier='pytest:main')", "was not called"),
    "a function of ours": ("shokri(classifier='leakscope.cli.main:main')", "was not called"),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with a module in it and beside it; the current folder is one of the two."""
    folder = Path(shutil.copytree(template(), tmp_path / "run"))
    for place in (folder, tmp_path):
        (place / "evil_code.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    return folder


def name(run: Path, attack: str) -> None:
    results = json.loads((run / "results.json").read_text())
    results["config"]["attacks"].append(attack)
    (run / "results.json").write_text(json.dumps(results))


@pytest.mark.parametrize(
    "reader", ["verify", *(pytest.param(r, marks=pytest.mark.slow) for r in READERS if r != "verify")]
)
@pytest.mark.parametrize("what", NAMES)
def test_code_that_a_run_names_is_not_run(
    what: str, reader: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack, reason = NAMES[what]
    name(run, attack)
    for place in (run, run.parent):
        monkeypatch.chdir(place)
        try:
            said = str(READERS[reader](run))
        except LeakscopeError as error:
            said = str(error)
        assert reason in said or reader == "compare", said  # which asks for the attacks that both have
        assert "antigravity" not in sys.modules


def test_code_of_a_run_is_found_where_its_owner_says(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.parent / "own_code.py").write_text(OWN)
    name(run, "own_code:Mine")
    assert "own_code is not installed" in verify_run(run).problems[0]
    monkeypatch.syspath_prepend(str(run.parent))
    assert "mine" in str(audit(FinishedRun(run), out=run).results.attacks)
    assert verify_run(run).problems == []


RECEIVED = {
    "a module in the run folder": "run.evil_code:Attack",
    "a module in a run folder in a folder": "runs.run.evil_code:Attack",
    "a module in the current folder": "evil_code:Attack",
    "a module in a package in the current folder": "package.evil_code:Attack",
}
LOOK = """
import sys
from pathlib import Path
from leakscope.runs.verification import verify_run
print(verify_run(Path(sys.argv[-1])).problems)
"""


@pytest.mark.parametrize("searched", ["", ".", "the current folder"])
@pytest.mark.parametrize("what", RECEIVED)
def test_code_below_the_current_folder_is_not_run(
    what: str, searched: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python looks there in a notebook, and where PYTHONPATH ends in a colon."""
    here = run.parent
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(searched if searched in ("", ".") else str(here))
    for folder in ("runs/run", "package"):
        shutil.copytree(run, here / folder) if folder == "runs/run" else (here / folder).mkdir()
        (here / folder / "evil_code.py").write_text("raise SystemExit('it ran')\n")
    (here / "package" / "__init__.py").write_text("raise SystemExit('it ran')\n")
    name(run, RECEIVED[what])
    assert "the run names code" in verify_run(run).problems[0]


@pytest.mark.parametrize("attack", ["run.evil_code:Attack", "package.run.evil_code:Attack"])
def test_code_in_a_run_folder_is_not_run_wherever_python_finds_it(
    attack: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the run folder is made a package, and its user names the folder around it."""
    (run / "__init__.py").write_text("raise SystemExit('it ran')\n")
    shutil.copytree(run, run.parent / "package" / "run")
    (run.parent / "package" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(run.parent))
    monkeypatch.syspath_prepend(str(run.parent))
    name(run, attack)
    assert "lies in a run folder; it was not imported" in verify_run(run).problems[0]


def test_a_folder_without_init_is_no_package_of_a_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.parent / "data").mkdir()
    (run.parent / "data" / "evil_code.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.setenv("PYTHONPATH", str(run.parent))
    monkeypatch.syspath_prepend(str(run.parent))
    name(run, "data.evil_code:Attack")
    assert "a folder without __init__.py; it was not imported" in verify_run(run).problems[0]


def test_the_files_of_a_run_have_the_names_that_code_in_it_is_recognized_by() -> None:
    assert _OF_A_RUN == (RUN, RESULTS)


@pytest.mark.slow
def test_the_folder_that_python_starts_in_counts_only_where_it_is_named(run: Path, tmp_path: Path) -> None:
    """That of a script, and the current one, which is what an empty entry of PYTHONPATH stands for, too."""
    for file in ("own_code.py", "scripts/own_code.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(OWN)
    (tmp_path / "scripts" / "look.py").write_text(LOOK)
    name(run, "own_code:Mine")

    def said(*arguments: str, named: str = "") -> str:
        path = os.pathsep.join([*filter(None, sys.path), named])
        done = subprocess.run(
            [sys.executable, *arguments, str(run)],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout + done.stderr

    for start in (("-c", LOOK), ("scripts/look.py",)):
        assert "own_code is not installed" in said(*start)
    assert "own_code" not in said("-c", LOOK, named=".")
    assert "own_code" not in said("scripts/look.py", named="scripts")
