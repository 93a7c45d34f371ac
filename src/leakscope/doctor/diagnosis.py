"""Everything that `leakscope doctor` looks at, as data and as lines of text."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from leakscope import __version__
from leakscope.doctor.machine import (
    Datasets,
    Folder,
    Machine,
    look_at_datasets,
    look_at_folders,
    look_at_machine,
)
from leakscope.doctor.packages import Package, check_packages
from leakscope.doctor.requirements import requirements
from leakscope.errors import printable

_OF_DEVELOPERS = ("dev", "-tests")
_OLDEST_PYTHON, _FIRST_TOO_NEW = (3, 11), (3, 14)


@dataclass(frozen=True)
class Diagnosis:
    """The state of an installation.

    Attributes:
        leakscope: its version.
        python: version of Python, and where it is.
        packages: those that are always needed, then those of extras.
        machine: what this process may use.
        folders: those that are written to.
        datasets: those in the data folder.
        problems: what is needed and does not work, each with its remedy.
        remedies: commands that add what is optional and missing.
    """

    leakscope: str
    python: str
    packages: tuple[Package, ...]
    machine: Machine
    folders: tuple[Folder, ...]
    datasets: Datasets
    problems: tuple[str, ...]
    remedies: tuple[str, ...]


def diagnose(data_dir: Path | None = None) -> Diagnosis:
    """Looks at everything; takes seconds, because packages are imported to see whether they can be."""
    packages = check_packages([r for r in requirements() if not r.extra.endswith(_OF_DEVELOPERS)])
    folders = look_at_folders()
    return Diagnosis(
        leakscope=__version__,
        python=f"{platform.python_version()}, {sys.executable}",
        packages=tuple(packages),
        machine=look_at_machine(),
        folders=tuple(folders),
        datasets=look_at_datasets(data_dir),
        problems=tuple(_problems(packages, folders)),
        remedies=tuple(_remedies(packages)),
    )


def as_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as JSON."""
    return json.dumps(asdict(diagnosis), indent=2)


def lines(diagnosis: Diagnosis) -> list[str]:
    """The diagnosis for a reader, the verdict last."""
    machine, data = diagnosis.machine, diagnosis.datasets
    listed = [
        f"leakscope {diagnosis.leakscope}",
        f"Python {diagnosis.python}",
        machine.system,
        f"Processor: {machine.cores} cores{_threads(machine)}",
        f"Memory: {_gigabytes(machine.memory_bytes)}",
        f"GPU: {'; '.join(machine.gpus) or f'none: {machine.gpu_remark}'}",
        "",
        "Required packages",
        *(_package_line(package) for package in diagnosis.packages if not package.extra),
        "",
        "Packages of extras",
        *(_package_line(package) for package in diagnosis.packages if package.extra),
        "",
        *(_folder_line(folder) for folder in diagnosis.folders),
        f"Data folder: {data.folder or data.problem}",
        f"  datasets: {', '.join(data.present) or 'none'}",
        f"  `leakscope data fetch NAME` adds: {', '.join(data.absent) or 'none'}",
        "Browser: not needed; report.html opens in any browser, without a network",
        "",
        *(f"Optional: {remedy}" for remedy in diagnosis.remedies),
        *(f"PROBLEM: {problem}" for problem in diagnosis.problems),
        *([] if diagnosis.problems else ["Nothing that leakscope needs is missing or broken."]),
    ]
    return [printable(line).rstrip() for line in listed]


def _problems(packages: list[Package], folders: list[Folder]) -> Iterator[str]:
    if not _OLDEST_PYTHON <= sys.version_info[:2] < _FIRST_TOO_NEW:
        yield f"Python {platform.python_version()} is not supported; use 3.11, 3.12 or 3.13"
    if not packages:
        yield "leakscope is not installed, so what it needs is unknown; run `pip install leakscope`"
    for package in packages:
        if package.is_broken:
            again = "--force-reinstall " if package.status == "broken" else ""
            wanted = f"{package.name}{package.needs}"
            yield f"{package.name}: {package.problem}; run `pip install {again}'{wanted}'`"
    for folder in folders:
        if folder.problem and folder.is_needed:
            yield f"{folder.path} {folder.problem}"


def _remedies(packages: list[Package]) -> Iterator[str]:
    extras = dict.fromkeys(package.extra for package in packages if package.extra)
    for extra in extras:
        lacking = [p for p in packages if p.extra == extra and p.status != "ok"]
        if lacking:
            why = ", ".join(f"{package.name} is {package.status}" for package in lacking)
            yield f"`pip install 'leakscope[{extra}]'` ({why})"


def _package_line(package: Package) -> str:
    of = f" [{package.extra}]" if package.extra else ""
    state = "" if package.status == "ok" else f"  {package.status.upper()}: {package.problem}"
    return f"  {package.name:18} {package.version or '-':14}{of}{state}"


def _folder_line(folder: Folder) -> str:
    state = folder.problem or f"can be written, {_gigabytes(folder.free_bytes)} free"
    return f"{folder.purpose[:1].upper()}{folder.purpose[1:]}: {folder.path}, {state}"


def _threads(machine: Machine) -> str:
    n = machine.torch_threads
    torch = "" if n is None else f"; torch uses {n} {'thread' if n == 1 else 'threads'}"
    set_by = ", ".join(f"{name}={value}" for name, value in machine.thread_settings.items())
    return f"{torch}{f' ({set_by})' if set_by else ''}"


def _gigabytes(n_bytes: int | None) -> str:
    return "unknown" if n_bytes is None else f"{n_bytes / 1e9:,.1f} GB"
