"""Code a user brings: "package.module:name" in a setting becomes the object it names.

A user's module often lies beside the config file or in the current folder. These folders are appended to
the module search path, so that nothing in them shadows an installed package, and only when code is named.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakscope.errors import InputError, LeakscopeError


def names_code(text: str) -> bool:
    """True for "package.module:name", false for the name of something leakscope ships."""
    return ":" in text.partition("(")[0]


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
    for place in (folder, Path.cwd()):
        if place is not None and str(place.resolve()) not in sys.path:
            sys.path.append(str(place.resolve()))
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a user's module may raise anything
        reason = (
            error if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        )
        raise InputError(
            f"{setting}={path!r} cannot be imported ({reason}); write for example {example!r}, and run "
            "leakscope from the folder that holds the module, or install it"
        ) from error
    return found


@contextmanager
def user_errors(what: str) -> Iterator[None]:
    """Turns whatever a user's code raises into one line that says where; the cause stays attached.

    Args:
        what: the code that is called, as the user named it.
    """
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
