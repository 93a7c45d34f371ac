"""Clean environments without downloads: the wheel, and links to exactly what its metadata asks for.

A package that leakscope imports but does not declare is missing in them, as it would be on a user's machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def packages(self) -> Path:
        return next((self.folder / "lib").glob("python*/site-packages"))

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A program of the environment, in a folder, without anything of this process's own paths."""
        mine = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_"))
        }
        program = self.folder / "bin" / command[0]
        return subprocess.run([program, *command[1:]], cwd=cwd, env=mine, capture_output=True, text=True)

    def leakscope(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        return self.run("leakscope", *arguments, cwd=cwd)


def environment(folder: Path, wheel: Path, python: Path | str = sys.executable) -> Environment:
    """An environment with the wheel alone."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", folder / "bin" / "python"]
    subprocess.run([*pip, "install", "--no-deps", "--no-compile", wheel], check=True)
    return Environment(folder)


def link_packages(folder: Path, requirements: list[str]) -> set[str]:
    """Links the packages of this process that satisfy requirements, and what they require; returns names."""
    linked: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    seen: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        try:
            found = distribution(wanted.name)
        except PackageNotFoundError:
            continue  # its import fails in the environment, which then names it
        linked[wanted.name.lower()] = found
        waiting += _requirements(found, wanted.extras)
    for found in linked.values():
        _link(found, folder)
    return set(linked)


def requirements_of(wheel: Environment, extra: str | None = None) -> list[str]:
    """What the installed wheel declares."""
    info = next(wheel.packages.glob("leakscope-*.dist-info"))
    return [str(one) for one in _requirements(Distribution.at(info), {extra} if extra else set())]


def _requirements(of: Distribution, extras: set[str]) -> list[Requirement]:
    every = [Requirement(text) for text in of.requires or ()]
    return [
        one
        for one in every
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def _link(package: Distribution, folder: Path) -> None:
    for name in {file.parts[0] for file in package.files or () if ".." not in file.parts}:
        source = Path(str(package.locate_file(name)))
        if source.exists() and not (folder / name).exists() and name != "__pycache__":
            (folder / name).symlink_to(source)
