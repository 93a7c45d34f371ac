"""The packages that leakscope needs, as its own installation lists them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import NamedTuple

PACKAGE = "leakscope"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?\s*\(?([^;)]*)\)?\s*(?:;\s*(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_PYTHON = re.compile(r"python_version\s*(<=|>=|<|>|==)\s*['\"]([\d.]+)['\"]")
_BOUND = re.compile(r"(<=|>=|<|>|==)\s*([\d.]+)")
_MODULES = {
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "pytest-xdist": "xdist",
    "pyyaml": "yaml",
    "xgboost-cpu": "xgboost",
    "mlflow-skinny": "mlflow",
    "mkdocs-material": "material",
}
"""Packages whose modules have other names."""


class Requirement(NamedTuple):
    """One package.

    Attributes:
        name: as pip knows it.
        module: as Python imports it.
        bounds: on its version, as text such as ">=2.0".
        extra: the extra it belongs to; empty: it is always needed.
    """

    name: str
    module: str
    bounds: str
    extra: str = ""

    def allows(self, version: str) -> bool:
        """Whether a version is within the bounds; pre-releases count as their release."""
        return all(_compared(version, sign, bound) for sign, bound in _BOUND.findall(self.bounds))


def requirements() -> list[Requirement]:
    """What the installed leakscope declares; empty where it is run from a folder without being installed."""
    try:
        declared = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return []
    return parsed(declared)


def parsed(declared: Iterable[str]) -> list[Requirement]:
    """The requirements of these lines that apply to this version of Python."""
    found = []
    for line in declared:
        match = _REQUIREMENT.fullmatch(line)
        if match is None or match[1].lower() == PACKAGE:  # an extra that is made of other extras
            continue
        name, _, bounds, marker = match.groups(default="")
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        if all(_compared(here, sign, version) for sign, version in _PYTHON.findall(marker)):
            extra = _EXTRA.search(marker)
            module = _MODULES.get(name.lower(), name.replace("-", "_"))
            found.append(Requirement(name, module, bounds.strip(), extra[1] if extra else ""))
    return found


def _compared(version: str, sign: str, bound: str) -> bool:
    one, other = _numbers(version), _numbers(bound)
    width = max(len(one), len(other))
    one, other = one + [0] * (width - len(one)), other + [0] * (width - len(other))
    return {
        "<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other, "==": one == other,
    }[sign]  # fmt: skip


def _numbers(version: str) -> list[int]:
    """The release of a version: 2.13.0+cpu is 2, 13, 0."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return [int(part) for part in match[0].split(".")] if match else []
