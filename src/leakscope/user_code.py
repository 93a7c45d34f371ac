"""A user's own code: "package.module:name" in a setting becomes the object it names.

A user's module is often in the folder of the config file or in the current folder. These folders are appended
to the module search path, so that nothing in them shadows an installed package, and only when code is named.

A run folder may be somebody else's, and it names code, too: attacks that its models were judged by. What it
names is not looked for in these folders, and nothing of Python's own library is imported for it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leakscope.errors import InputError, LeakscopeError, did_you_mean

_is_named_by_a_run: ContextVar[bool] = ContextVar("_is_named_by_a_run", default=False)


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
    return named


def _closest(error: Exception) -> str:
    """What a module has that is called nearly like the name it lacks; empty where there is nothing."""
    if not isinstance(error, AttributeError) or error.name is None:
        return ""
    return did_you_mean(error.name, [name for name in dir(error.obj) if not name.startswith("_")])


def _refuse_unasked(setting: str, path: str, module: str) -> None:
    """Refuses what a run names unless Python finds it by itself, where only its user puts modules."""
    top, *inner = module.split(".")
    if top in sys.stdlib_module_names or top == "test" or "__main__" in inner:  # some act when imported
        raise InputError(f"{setting}={path!r}: no run names this module; it was not imported")
    if top not in (*sys.modules, _script_name()) and not _is_findable(top):
        raise InputError(
            f"{setting}={path!r}: the run names code of its own, and {top} is not installed; if you trust "
            "this code, name the folder that holds it in the environment variable PYTHONPATH"
        )


def _is_findable(top: str) -> bool:
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):
        return False


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
