"""Tables of a config file, checked against the dataclasses they fill: all problems at once, in words."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from leakscope.errors import InputError

T = TypeVar("T")
Toml = dict[str, Any]
"""A config file or one of its tables, as `tomllib` reads it."""


class Problems:
    """Collects what is wrong with a config file."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Notes one problem."""
        self.lines.append(line)

    def unknown(self, where: str, name: str, known: Collection[str]) -> None:
        """Notes a setting that does not exist, with the closest that does."""
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        self.add(f"{where}{name} is not a known setting{hint}")


def table_values(content: Toml, section: str, cls: type, problems: Problems, names: Collection[str]) -> Toml:
    """The values of one table that fit the fields of a dataclass.

    Args:
        content: the whole config file.
        section: name of the table.
        cls: the dataclass whose annotations the values must fit.
        problems: collects unknown settings and values that do not fit.
        names: the fields that may be set in this table.
    """
    table = content.get(section, {})
    if not isinstance(table, dict):
        problems.add(f"{section}={table!r}: should be a table, written [{section}]")
        return {}
    hints = get_type_hints(cls)
    values = {}
    for name, value in table.items():
        if name not in names:
            problems.unknown(f"{section}.", name, names)
            continue
        fits, checked = _fitting(hints[name], value, f"{section}.{name}", problems)
        if fits:
            values[name] = checked
    return values


def made(cls: type[T], values: Toml, section: str, problems: Problems) -> T | None:
    """The dataclass made of checked values; None where it refuses them, and why is noted."""
    parameters = inspect.signature(cls).parameters.values()
    missing = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.name not in values]
    for name in missing:
        problems.add(f"{section}.{name} is missing")
    if missing:
        return None
    try:
        return cls(**values)
    except InputError as error:
        problems.add(f"{section}: {str(error).removeprefix(f'{section}: ')}")
        return None


def field_names(cls: type, without: Collection[str] = ()) -> tuple[str, ...]:
    """The fields of a dataclass."""
    return tuple(f.name for f in dataclasses.fields(cls) if f.name not in without)


def _fitting(hint: Any, value: Any, where: str, problems: Problems) -> tuple[bool, Any]:
    """Whether a value fits an annotation, and the value as the annotation's type."""
    from pydantic import TypeAdapter, ValidationError

    try:
        # Strictly, so that "8" is no number; as JSON, so that a list may be a tuple and a text a path.
        return True, TypeAdapter(hint).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        seen = set()
        for problem in error.errors():
            inner = ".".join(str(part) for part in problem["loc"] if isinstance(part, int))
            place = f"{where}.{inner}" if inner else where
            message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
            shown = "" if isinstance(problem["input"], dict) else f"={problem['input']!r}"
            if place not in seen:
                problems.add(f"{place}{shown}: {message}")
            seen.add(place)
        return False, None
