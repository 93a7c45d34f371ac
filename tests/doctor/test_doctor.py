"""`leakscope doctor` tells what is wrong with an installation, and survives what is wrong with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path

import pytest

from leakscope.doctor import diagnosis, machine
from leakscope.doctor.diagnosis import Diagnosis, diagnose, lines
from leakscope.doctor.packages import Package, check_packages, import_problems
from leakscope.doctor.requirements import Requirement, parsed, requirements
from tests.cli.command import run_command

COMMAND = "from leakscope.cli.main import main; main()"
SOURCES = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages as broken installations have them."""
    for name, text in {
        "fine_package": "",
        "raises": "raise ImportError('libfoo.so: cannot open\\nshared object file')",
        "exits": "import sys; sys.exit('bye')",
        "crashes": "import os; os._exit(139)",
        "prints": "print('leakscope-doctor is my favourite')",
        "also_fine": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_imports_that_raise_exit_crash_and_print(modules: Path) -> None:
    problems = import_problems(["fine_package", "raises", "exits", "crashes", "prints", "also_fine"])
    assert {name for name, problem in problems.items() if not problem} == {
        "fine_package",
        "prints",
        "also_fine",
    }
    assert "libfoo.so" in problems["raises"] and "SystemExit: bye" in problems["exits"]
    assert problems["crashes"] == "the import ended Python (exit code 139)"


def test_the_state_of_packages(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"raises": "1.0", "fine-package": "1.9.1", "absent": None}
    monkeypatch.setattr("leakscope.doctor.packages.installed_version", versions.get)
    needed = [
        Requirement("raises", "raises", ""),
        Requirement("fine-package", "fine_package", ">=1.10"),
        Requirement("absent", "absent", ">=2", "ray"),
    ]
    broken, old, absent = check_packages(needed)
    assert broken.status == "broken" and "\n" not in broken.problem and broken.is_broken
    assert old.status == "too old or too new" and "1.9.1 is installed, >=1.10 is needed" in old.problem
    assert absent.status == "missing" and not absent.is_broken


def test_requirements_as_pip_writes_them() -> None:
    found = parsed(
        [
            "scikit-learn>=1.5",
            "torch<=2.13.0,>=2.6; python_version < '3.0'",
            'ray<3,>=2.60; extra == "ray"',
            "leakscope[ray,s3]; extra == 'all'",
            "moto[s3] (>=5.2) ; extra == 'cluster-tests'",
            "pillow",
        ]
    )
    assert [(r.name, r.module, r.extra) for r in found] == [
        ("scikit-learn", "sklearn", ""), ("ray", "ray", "ray"), ("moto", "moto", "cluster-tests"),
        ("pillow", "PIL", ""),
    ]  # fmt: skip
    ray = found[1]
    allowed = {"2.59.9": False, "2.60": True, "2.60.0rc1": True, "2.100": True, "3.0.0": False}
    assert {version: ray.allows(version) for version in allowed} == allowed


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> Diagnosis:
    """A diagnosis of made-up packages, so that none has to be imported."""
    package = Package("numpy", "2.4.6", ">=2.0", "", "ok", "")
    optional = Package("ray", None, ">=2.60", "ray", "missing", "not installed")
    monkeypatch.setattr(diagnosis, "check_packages", lambda needed: [package, optional])
    monkeypatch.setattr(machine, "_torch_facts", lambda: (2, (), "torch sees none"))
    return diagnose()


def test_what_is_optional_is_no_problem(healthy: Diagnosis) -> None:
    assert healthy.problems == ()
    text = "\n".join(lines(healthy))
    assert "Optional: `pip install 'leakscope[ray]'` (ray is missing)" in text
    assert "Nothing that leakscope needs is missing or broken." in text
    done = run_command("doctor")
    assert done.exit_code == 0 and "Browser: not needed" in done.out
    assert json.loads(run_command("doctor", "--json").out)["packages"][1]["status"] == "missing"


def test_what_is_needed_and_broken_is_named_with_its_remedy(
    healthy: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = replace(healthy.packages[0], status="broken", problem="ImportError: no")
    monkeypatch.setattr(diagnosis, "check_packages", lambda needed: [broken])
    done = run_command("doctor")
    assert done.exit_code == 3
    assert "PROBLEM: numpy: ImportError: no; run `pip install --force-reinstall 'numpy>=2.0'`" in done.out
    assert "Nothing that leakscope needs" not in done.out


def test_the_data_folder_and_a_folder_that_cannot_be_written(
    healthy: Diagnosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"digits", "gaussian"} <= set(machine.look_at_datasets(tmp_path).present)
    assert "cifar10" in machine.look_at_datasets(tmp_path).absent
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "nowhere"))
    refused = diagnose()
    assert len(refused.problems) == 1 and "TMPDIR" in refused.problems[0]


@pytest.mark.slow
@pytest.mark.parametrize("start", [["-m", "leakscope.doctor"], ["-c", COMMAND, "doctor"]])
def test_a_broken_numpy_is_found_and_everything_else_is_still_said(tmp_path: Path, start: list[str]) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("raise ImportError('broken on purpose')")
    done = subprocess.run(
        [sys.executable, *start, "--json"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{SOURCES}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    by_name = {package["name"]: package for package in found["packages"]}
    assert by_name["numpy"]["status"] == "broken" and "broken on purpose" in by_name["numpy"]["problem"]
    assert by_name["typer"]["status"] == "ok"
    assert any(problem.startswith("numpy: ") for problem in found["problems"])


def test_every_installed_requirement_is_looked_for_under_the_name_of_its_module() -> None:
    installed = {(found.name or "").lower().replace("_", "-") for found in metadata.distributions()}
    wanted = [one for one in requirements() if one.name.lower().replace("_", "-") in installed]
    assert wanted
    assert [one.name for one in wanted if util.find_spec(one.module) is None] == []
