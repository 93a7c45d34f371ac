"""Whether packages are installed, recent enough, and can be imported.

Packages are imported in a process of their own: an import may raise anything, print, never end, or end the
process. The process reports each package before and after; where it ends early, the package it was at is
broken, and a new process checks the remaining ones.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from leakscope.doctor.requirements import Requirement

Status = Literal["ok", "missing", "too old or too new", "broken"]
_MARK = "leakscope-doctor "
_SECONDS = 180
_IMPORTS = f"""
import importlib, json, sys
def say(**facts):
    sys.stdout.flush()
    sys.__stdout__.write("\\n{_MARK}" + json.dumps(facts) + "\\n")
    sys.__stdout__.flush()
for name in sys.argv[1:]:
    say(module=name)
    try:
        importlib.import_module(name)
        say(module=name, problem="")
    except BaseException as error:
        say(module=name, problem=(type(error).__name__ + ": " + str(error)))
"""
_LONGEST_PROBLEM = 300


@dataclass(frozen=True)
class Package:
    """One package.

    Attributes:
        name: as pip knows it.
        version: what is installed; None: nothing.
        needs: bounds on its version.
        extra: the extra it belongs to; empty: it is always needed.
        status: whether it can be used.
        problem: why not; empty where it can.
    """

    name: str
    version: str | None
    needs: str
    extra: str
    status: Status
    problem: str

    @property
    def is_broken(self) -> bool:
        """Whether an audit cannot do without it, and must."""
        return self.status != "ok" and not self.extra


def check_packages(needed: Sequence[Requirement]) -> list[Package]:
    """The state of each package."""
    versions = {requirement.name: installed_version(requirement.name) for requirement in needed}
    present = [r.module for r in needed if versions[r.name] is not None]
    problems = import_problems(list(dict.fromkeys(present)))
    return [_package(requirement, versions[requirement.name], problems) for requirement in needed]


def installed_version(name: str) -> str | None:
    """The version that pip installed; None: it did not."""
    try:
        return str(metadata.version(name))
    except metadata.PackageNotFoundError:
        return None
    except Exception as error:  # a damaged installation may fail in any way
        return f"unknown ({type(error).__name__})"


def import_problems(modules: Sequence[str]) -> dict[str, str]:
    """Module -> why it cannot be imported; empty where it can."""
    problems: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        reported, ended = _imported(waiting)
        if not reported:
            return problems | dict.fromkeys(waiting, ended)
        problems |= {module: problem for module, problem in reported.items() if problem is not None}
        crashed = [module for module, problem in reported.items() if problem is None]
        problems |= dict.fromkeys(crashed, ended)
        waiting = [module for module in waiting if module not in reported]
    return problems


def _imported(modules: Sequence[str]) -> tuple[dict[str, str | None], str]:
    """What one process reported, None for the module it ended at, and how it ended."""
    command = [sys.executable, "-c", _IMPORTS, *modules]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        out, ended = done.stdout, f"the import ended Python (exit code {done.returncode})"
    except subprocess.TimeoutExpired as error:
        shown = error.stdout or ""
        out = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
        ended = f"the import did not end within {_SECONDS} s"
    except OSError as error:
        return {}, f"Python cannot be started ({error})"
    reported: dict[str, str | None] = {}
    for line in out.splitlines():
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError):  # a package may print anything
                facts = json.loads(line.removeprefix(_MARK))
                reported[facts["module"]] = facts.get("problem")
    return reported, ended


def _package(requirement: Requirement, version: str | None, problems: dict[str, str]) -> Package:
    problem = problems.get(requirement.module, "")
    status: Status = "ok"
    if version is None:
        status, problem = "missing", "not installed"
    elif problem:
        status, problem = "broken", " ".join(problem.split())[:_LONGEST_PROBLEM]
    elif not requirement.allows(version):
        status, problem = "too old or too new", f"{version} is installed, {requirement.bounds} is needed"
    return Package(requirement.name, version, requirement.bounds, requirement.extra, status, problem)
