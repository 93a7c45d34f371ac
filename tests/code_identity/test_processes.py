"""Identities in other processes: the edits that users make, by the command line and a script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.code_identity.project import Code, Project, printed_by
from tests.code_identity.test_edits import REFUSED, REUSED, signals_of
from tests.warm_start import run_python

COMMAND = """
from leakscope.cli.main import main
from tests.quick_audits import few_permutations, quick_audits
with quick_audits(), few_permutations():
    main()
"""
AUDIT_ALL = """
import sys
from pathlib import Path
from leakscope.errors import BankMismatchError
from tests.code_identity.project import Project
from tests.code_identity.test_edits import REFUSED, REUSED
from tests.quick_audits import few_permutations, quick_audits

def outcome(what, edit):
    try:
        Project(Path(what)).audit(edit.recipe)
        return "done"
    except BankMismatchError as error:
        assert "were trained by other code" in str(error)
        return "refused"

for what, edit in {**REFUSED, **REUSED}.items():
    sys.path.append(what)
    with quick_audits(), few_permutations():
        print(what, outcome(what, edit), sep=": ")
    sys.path.remove(what)
"""
SCRIPT = """
import leakscope
from tests.code_identity.project import records

WEIGHT = 2.0


def helper(values):
    return WEIGHT * values


def train(records, indices, seed):
    mean = records.features[indices].mean(axis=0)
    return lambda queries: helper((queries - mean)[:, :2])


if __name__ == "__main__":
    leakscope.audit(
        records(), leakscope.FunctionRecipe(train), "run", models=4, attacks=["loss"], device="cpu"
    )
"""


def audit(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_python(folder, "-c", COMMAND, "audit", "audit.toml", "--quiet", *options)


def configured(folder: Path, model: str) -> Project:
    project = Project(folder)
    (folder / "audit.toml").write_text(
        "[data]\ndataset = 'tests.code_identity.project:records'\n"
        f"[model]\n{model}\n[population]\nmodels = 4\n"
        "device = 'cpu'\n[attacks]\nnames = ['loss']\n"
    )
    return project


@pytest.mark.slow
def test_edits_are_noticed_from_process_to_process(tmp_path: Path) -> None:
    edits = {**REFUSED, **REUSED}
    projects = {}
    for what in edits:
        (tmp_path / what).mkdir()
        projects[what] = Project(tmp_path / what)
    first = run_python(tmp_path, "-c", AUDIT_ALL)
    assert first.stdout.splitlines() == [f"{what}: done" for what in edits], first.stderr
    for what, edit in edits.items():
        projects[what].edit(*edit[1:])
    second = run_python(tmp_path, "-c", AUDIT_ALL)
    refused, reused = [f"{what}: refused" for what in REFUSED], [f"{what}: done" for what in REUSED]
    assert second.stdout.splitlines() == [*refused, *reused], second.stderr


@pytest.mark.slow
def test_code_that_cannot_be_compared_needs_reuse(tmp_path: Path) -> None:
    project = configured(tmp_path, "train = 'own_train:built'")
    project.edit(
        "own_train.py", "closure = made(2.0)", "closure = made(2.0)\nexec('built = lambda *a: closure(*a)')"
    )
    assert audit(tmp_path).returncode == 0
    before = signals_of(tmp_path / "runs" / "audit")
    refused = audit(tmp_path)
    assert refused.returncode == 2
    assert "train was built at run time" in refused.stderr and "--reuse" in refused.stderr
    project.edit("own_train.py", "made(2.0)", "made(4.0)")
    assert audit(tmp_path).returncode == 2
    assert audit(tmp_path, "--reuse").returncode == 0
    assert signals_of(tmp_path / "runs" / "audit") == before
    assert audit(tmp_path, "--fresh").returncode == 0
    assert signals_of(tmp_path / "runs" / "audit") != before
    assert audit(tmp_path, "--fresh", "--reuse").returncode == 2


@pytest.mark.slow
def test_the_call_of_an_audit_in_a_script_may_change_but_not_what_it_trains(tmp_path: Path) -> None:
    script = tmp_path / "my_script.py"
    for text, returncode in (
        (SCRIPT, 0),
        (SCRIPT.replace("models=4", "models=6"), 0),
        (SCRIPT.replace("WEIGHT * values", "WEIGHT * values  # scaled").replace("models=4", "models=6"), 0),
        (SCRIPT.replace("WEIGHT = 2.0", "WEIGHT = 3.0").replace("models=4", "models=6"), 1),
        (SCRIPT.replace("WEIGHT * values", "WEIGHT + values").replace("models=4", "models=6"), 1),
    ):
        script.write_text(text)
        ended = run_python(tmp_path, "my_script.py")
        assert ended.returncode == returncode, ended.stderr
        assert ("were trained by other code" in ended.stderr) == bool(returncode)


def test_the_identity_is_the_same_in_every_process(code: Code) -> None:
    code.write(
        user_main="NAMES = {'a', 'b', 'c', ('d', 'e')}\nclass A:\n    seen = frozenset('abc')\n"
        "import numpy as np\nRNG = np.random.default_rng(0)  # holds a function that Cython compiled\n"
        "def train(x, k={'x': A}):\n    return x in NAMES or x in {'p', 'q', 'r'} or A or RNG\n"
    )
    program = (
        "from leakscope.code_identity.walk import code_identity; import user_main; "
        "print(code_identity(train=user_main.train))"
    )
    printed = {printed_by(program, [code.folder], PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    assert len(printed) == 1
