"""Code a user brings: "package.module:name" in a setting becomes the object it names.

A user's module often lies beside the config file or in the current folder. These folders are appended to
the module search path, so that nothing in them shadows an installed package, and only when code is named.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from leakscope.errors import InputError


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
