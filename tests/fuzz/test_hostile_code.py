"""Run folders that name code: none of it runs, wherever it lies and whatever reads the folder."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leakscope.audits.finished import FinishedRun
from leakscope.audits.run import audit
from leakscope.compare.compare import compare
from leakscope.errors import LeakscopeError
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.verification import verify_run
from tests.fuzz.runs import answers_into, template

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
    (run.parent / "own_code.py").write_text(
        "from leakscope.attacks.thresholds import Correctness\nclass Mine(Correctness):\n    name = 'mine'\n"
    )
    name(run, "own_code:Mine")
    assert "own_code is not installed" in verify_run(run).problems[0]
    monkeypatch.syspath_prepend(str(run.parent))
    assert "mine" in str(audit(FinishedRun(run), out=run).results.attacks)
    assert verify_run(run).problems == []
