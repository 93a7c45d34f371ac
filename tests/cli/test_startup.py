"""Help and import are quick because they load nothing heavy. Checked in fresh processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "sklearn", "scipy", "polars", "matplotlib", "pandas", "joblib"}
CALL = "from leakscope.cli.main import main; main()"


def modules_after(statements: str) -> set[str]:
    script = (
        "import sys, json, contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    try:\n"
        f"        {statements}\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, end.code\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(found.stdout))


def test_import_loads_nothing_heavy() -> None:
    assert modules_after("import leakscope") & HEAVY == set()


@pytest.mark.parametrize(
    "arguments", [["--help"], ["study", "scaling", "--help"], ["--version"]], ids=" ".join
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_after(f"sys.argv = ['leakscope', *{arguments!r}]; {CALL}")
    assert loaded & HEAVY == set()
    assert "typer" in loaded  # the command did run


def test_the_installed_command_reports_a_mistake(tmp_path: Path) -> None:
    """The one look at a real process: its exit code, its two streams, and how many lines."""
    command = Path(sys.executable).with_name("leakscope")
    if not command.exists():
        pytest.skip("the leakscope command is not installed beside this Python")
    done = subprocess.run(
        [command, "study", "scaling", "--widths", "-8", "--out", tmp_path / "run"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "widths=[-8]" in done.stderr
    assert not (tmp_path / "run").exists()
