"""The Dockerfile, as far as it can be tested without Docker: what it copies exists and suffices to build."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in TEXT.replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]


def copied() -> list[str]:
    return [source for name, rest in INSTRUCTIONS if name == "COPY" for source in shlex.split(rest)[:-1]]


def reaches_docker(name: str) -> bool:
    """Whether .dockerignore lets a top-level file or folder through; the last line that matches decides."""
    matching = [line for line in IGNORED if fnmatch(name, line.removeprefix("!"))]
    return not matching or matching[-1].startswith("!")


def test_every_copied_file_exists_and_reaches_docker() -> None:
    assert copied()
    assert [name for name in copied() if not (ROOT / name).exists() or not reaches_docker(name)] == []
    assert not any(map(reaches_docker, ("docs", "runs", ".git", "tests")))


def test_it_installs_extras_that_exist_for_a_python_that_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"pip install .*'\.\[([\w,]+)\]'", TEXT)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    (version,) = re.findall(r"^FROM python:(\d\.\d+)-slim$", TEXT, re.MULTILINE)
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_audits_do_not_run_as_root_and_arguments_reach_leakscope() -> None:
    names = [name for name, _ in INSTRUCTIONS]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert dict(INSTRUCTIONS)["ENTRYPOINT"] == '["leakscope"]'


@pytest.mark.slow
def test_what_is_copied_suffices_to_build(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed (pip install 'leakscope[dev]')")
    context = tmp_path / "src"
    context.mkdir()
    for name in copied():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, context / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    built = subprocess.run([*pip, "--wheel-dir", tmp_path, "."], cwd=context, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert len(list(tmp_path.glob("leakscope-*.whl"))) == 1
