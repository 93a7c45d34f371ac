"""A user's own code: "package.module:name" in a setting becomes the object it names.

A user's module is often in the folder of the config file or in the current folder. These folders are appended
to the module search path, so that nothing in them shadows an installed package, and only when code is named.

A run folder may be somebody else's, and it names code, too: attacks that its models were judged by. What it
names is not looked for in these folders, in the folder of the running script or in any run folder, and
nothing of Python's own library is imported for it.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leakscope.errors import InputError, LeakscopeError, did_you_mean

_is_named_by_a_run: ContextVar[bool] = ContextVar("_is_named_by_a_run", default=False)
_OF_A_RUN = ("run.json", "results.json")
"""Files of every run folder that names code."""
_searched: set[Path] = set()
"""Folders that `search_in` has made importable."""
_named: dict[int, tuple[object, str]] = {}
"""By id: objects that settings have named, and the modules that they were last named in."""


@contextmanager
def named_by_a_run() -> Iterator[None]:
    """Within the block, names of code come from a run folder, which may be somebody else's."""
    before = _is_named_by_a_run.set(True)
    try:
        yield
    finally:
        _is_named_by_a_run.reset(before)


def is_named_by_a_run() -> bool:
    """Whether names of code come from a run folder now."""
    return _is_named_by_a_run.get()


def names_code(text: str) -> bool:
    """True for "package.module:name", false for the name of something leakscope ships."""
    return ":" in text.partition("(")[0]


def search_in(folder: Path | None) -> None:
    """Makes modules in `folder` and in the current folder importable."""
    for place in (folder, Path.cwd()):
        if place is not None and str(place.resolve()) not in sys.path:
            sys.path.append(str(place.resolve()))
            _searched.add(place.resolve())


def path_of(named: Any) -> str:
    """The "package.module:name" of a class or function.

    What is defined in a script that is being run gets the name under which others import the script.
    """
    module = named.__module__
    return f"{_script_name() or module if module == '__main__' else module}:{named.__qualname__}"


def import_object(setting: str, path: str, example: str, folder: Path | None = None) -> Any:
    """The object that "package.module:name" names.

    Args:
        setting: the setting it was given in, for the error message.
        path: "package.module:name".
        example: a correct value of the setting, for the error message.
        folder: where to look for modules that are not installed; None: the current folder only.

    Raises:
        InputError: there is no such module or name, or the module cannot be imported.
    """
    module, _, name = path.partition(":")
    if not name:
        package, _, last = module.rpartition(".")
        meant = f"{package}:{last}" if package and last[:1].isupper() else example  # a class ends the path
        raise InputError(
            f"{setting}={path!r} cannot be imported (no name after a colon); write for example {meant!r}"
        )
    if is_named_by_a_run():
        _refuse_unasked(setting, path, module)
    else:
        search_in(folder)
    try:
        # The script that is being run must not be executed a second time.
        named: Any = sys.modules["__main__"] if module == _script_name() else importlib.import_module(module)
        for part in name.split("."):
            named = getattr(named, part)
    except Exception as error:  # a user's module may raise anything
        reason = (
            error if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        )
        is_file = module.endswith(".py") and isinstance(error, ImportError)
        meant = f"{module.removesuffix('.py')}:{name}" if is_file else example
        remedy = _closest(error) or (
            f"write for example {meant!r}, and run leakscope from the folder that holds the module, or "
            "install it"
        )
        raise InputError(f"{setting}={path!r} cannot be imported ({reason}); {remedy}") from error
    if module != _script_name():
        _named[id(named)] = named, module
    return named


def module_that_names(value: object) -> str | None:
    """The module in which a setting names an object, which may have been defined in another."""
    return _named[id(value)][1] if id(value) in _named else None


def _closest(error: Exception) -> str:
    """What a module has that is called nearly like the name it lacks; empty where there is nothing."""
    if not isinstance(error, AttributeError) or error.name is None:
        return ""
    return did_you_mean(error.name, [name for name in dir(error.obj) if not name.startswith("_")])


def _refuse_unasked(setting: str, path: str, module: str) -> None:
    """Refuses what a run names unless Python finds it by itself, where only its user puts modules."""
    top, *inner = module.split(".")
    if top in sys.stdlib_module_names or top == "test":  # some act when they are imported
        raise InputError(
            f"{setting}={path!r}: a run may not name a module of Python's standard library; "
            "it was not imported"
        )
    if "__main__" in inner:
        raise InputError(f"{setting}={path!r}: a run may not name a program; it was not imported")
    if module in (*sys.modules, _script_name()):
        return
    specs = list(_specs(module))
    if not specs or (top not in sys.modules and _is_found_by_chance(specs[0])):
        raise InputError(
            f"{setting}={path!r}: the run names code of its own, and {top} is not installed; if you trust "
            "this code, name the folder that holds it in the environment variable PYTHONPATH"
        )
    for spec in specs:
        if spec.origin is None:  # any folder is a package to Python, also one that was unpacked here
            raise InputError(
                f"{setting}={path!r}: the run names code of its own in {spec.name}, a folder without "
                "__init__.py; it was not imported; if you trust this code, add an empty __init__.py"
            )
        if any(map(_is_in_a_run, _places(spec))):
            raise InputError(
                f"{setting}={path!r}: the run names code that lies in a run folder; it was not imported"
            )


def _specs(module: str) -> Iterator[ModuleSpec]:
    """Where Python finds a module and the packages around it, outermost first; nothing is imported.

    The last is a folder without `__init__.py` where there is one.
    """
    top, *inner = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return
    name = top
    while spec is not None:
        yield spec
        if not inner or spec.origin is None or spec.submodule_search_locations is None:
            return
        name = f"{name}.{inner.pop(0)}"
        spec = PathFinder.find_spec(name, spec.submodule_search_locations)


def _places(spec: ModuleSpec) -> list[Path]:
    """The folders of a package, or the file of a module."""
    file = [spec.origin] if spec.has_location and spec.origin else []
    return [Path(place) for place in spec.submodule_search_locations or file]


def _is_found_by_chance(spec: ModuleSpec) -> bool:
    """Whether a module lies where Python looks only because it was started there, or leakscope has to."""
    named = {Path(p).resolve() for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    started_in = {Path.cwd().resolve(), *_searched}
    if _script_name() is not None:
        started_in.add(Path(str(sys.modules["__main__"].__file__)).resolve().parent)
    return any(place.parent.resolve() in started_in - named for place in _places(spec))


def _is_in_a_run(place: Path) -> bool:
    """Whether a file or folder is, or is below, a run folder."""
    folders = {folder for path in (place.absolute(), place.resolve()) for folder in (path, *path.parents)}
    return any(all((folder / name).is_file() for name in _OF_A_RUN) for folder in folders)


def check_arguments(setting: str, make: Any, options: Mapping[str, object]) -> None:
    """Refuses options that a function or class does not take, with the closest that it takes."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # compiled code may have no signature
        return
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    optional = [p.name for p in parameters if p.default is not inspect.Parameter.empty]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, optional) or f"it takes {', '.join(optional) or 'none'}"
            raise InputError(
                f"{setting}: {name!r} is not an option of {getattr(make, '__name__', make)}; {hint}"
            )


def _script_name() -> str | None:
    """The importable name of the script that Python runs; None in a notebook or for `python -m`."""
    main = sys.modules.get("__main__")
    file = str(getattr(main, "__file__", ""))
    is_script = file.endswith(".py") and getattr(main, "__spec__", None) is None
    return Path(file).stem if is_script else None


@contextmanager
def user_errors(what: str) -> Iterator[None]:
    """Turns whatever a user's code (`what`, for the message) raises into one line that says where."""
    try:
        yield
    except LeakscopeError:
        raise
    except Exception as error:  # a user's code may raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        raise InputError(
            f"{what} raised {type(error).__name__}: {error} ({place}); "
            "call it by itself to see the whole traceback"
        ) from error
