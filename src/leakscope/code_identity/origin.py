"""Whose a module is: the user's, which counts by its source, or installed, which counts by its version."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

PYTHON = "python"
"""Stands for the interpreter and the standard library; counts by its minor version."""
OURS = "leakscope"
"""Does not count: a bank's format stands for what leakscope itself computes."""
NOT_INSTALLED = "not installed"
"""In place of a version: there is no such module."""

_DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # so common that looking it up, which takes 0.5 s, pays off
_STANDARD_LIBRARY = tuple(Path(sysconfig.get_paths()[name]).resolve() for name in ("stdlib", "platstdlib"))


class Origin(NamedTuple):
    """Where a module comes from.

    Attributes:
        package: the installed package it belongs to; None for a module of the user's.
        version: of the package, or `NOT_INSTALLED`.
        source: the source file of a user's module; None where it has none, such as a module in C.
        is_package: whether the source file is the `__init__.py` of a package.
    """

    package: str | None = None
    version: str = ""
    source: Path | None = None
    is_package: bool = False


def origin_of(module: str) -> Origin | None:
    """Where a module comes from; it is not imported. None: it has no file of its own, or is no module."""
    top = module.partition(".")[0]
    if top == OURS:
        return Origin(OURS)
    file = _file_of(module)
    if file is None:
        if top in sys.stdlib_module_names:
            return Origin(PYTHON, _python_version())
        return None if top in sys.modules or _spec(top) else Origin(top, NOT_INSTALLED)
    is_package = file.name == "__init__.py"
    root = file.parents[min(module.count(".") + is_package, len(file.parents) - 1)]
    if _is_for_installing(root) and (version := _version(top)) is not None:
        return Origin(_DISTRIBUTIONS.get(top, top), version)
    if any(file.is_relative_to(folder) for folder in _STANDARD_LIBRARY) and not _is_for_installing(root):
        return Origin(PYTHON, _python_version())
    return Origin(source=file if file.suffix == ".py" else None, is_package=is_package)


def _file_of(module: str) -> Path | None:
    """The file of a module, loaded or not; None for one without a file, or that does not exist."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return Path(file).resolve() if file else None
    top, *inner = module.split(".")
    spec = _spec(top)
    if spec is None:
        return None
    if not inner:
        return Path(spec.origin).resolve() if spec.has_location and spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *inner)
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if candidate.is_file():
                return candidate.resolve()
        for candidate in path.parent.glob(f"{path.name}.*"):
            if candidate.suffix in (".so", ".pyd", ".pyc"):
                return candidate.resolve()
    return None


def _spec(top: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):  # one that was made at run time has none
        return None


def _python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@cache
def _is_for_installing(folder: Path) -> bool:
    """True for a folder that packages are installed in, such as site-packages."""
    is_named_so = not {"site-packages", "dist-packages"}.isdisjoint(folder.parts)
    return is_named_so or next(folder.glob("*.dist-info"), None) is not None


@cache
def _version(top: str) -> str | None:
    """The version of the distribution that installed a module; None where none did."""
    try:
        return metadata.version(_DISTRIBUTIONS.get(top, top))
    except metadata.PackageNotFoundError:
        names = sorted(set(_distributions().get(top, ())))
        return ", ".join(metadata.version(name) for name in names) or None


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())
