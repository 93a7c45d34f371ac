"""Options of an attack: plain data that Python, text, TOML and JSON all express the same way.

An option is annotated as `bool`, `int`, `float`, `str`, `None`, a `Literal` of such values, or a union of
these. Values are checked when the attack is made, so every way of giving one reports the same error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from leakscope.errors import InputError

_TYPE_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "text", NoneType: "none"}
_BARE_TEXT = re.compile(r"[\w.:/+-]+")
_OPTION = re.compile(r"""\s*(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^,"']*?)\s*(?:,|$)""")


class Accepted(NamedTuple):
    """What an option may be: any value of `types`, or one of `values`."""

    types: tuple[type, ...]
    values: tuple[object, ...]

    def __str__(self) -> str:
        names = [_TYPE_NAMES[accepted] for accepted in self.types if accepted is not NoneType]
        values = " | ".join(option_text(value) for value in self.values)
        none = [_TYPE_NAMES[NoneType]] if NoneType in self.types else []
        return " or ".join(filter(None, [*names, values, *none]))

    def convert(self, value: object) -> object:
        """The value as the option holds it: numpy scalars as Python's, an integer as a float where only
        that fits.

        Raises:
            ValueError: the option does not accept the value.
        """
        value = value.item() if isinstance(value, np.generic) else value
        if type(value) is int and float in self.types and int not in self.types:
            value = float(value)
        is_listed = any(type(value) is type(listed) and value == listed for listed in self.values)
        if (not is_listed and type(value) not in self.types) or value != value:
            raise ValueError(f"expected {self}")
        return value


def accepted_values(cls: type) -> Mapping[str, Accepted]:
    """Option -> what it accepts, for a class of attacks, which is a dataclass.

    Raises:
        InputError: an option's annotation is not plain data.
    """
    return _accepted_values(cast(Any, cls))  # mypy would confuse the hash of a class with that of an attack


@cache
def _accepted_values(cls: type) -> Mapping[str, Accepted]:
    hints = get_type_hints(cls)
    options = {field.name: _accepted(cls, field.name, hints[field.name]) for field in fields(cls)}
    return MappingProxyType(options)  # all callers share it


def _accepted(cls: type, option: str, hint: Any) -> Accepted:
    types: list[type] = []
    values: list[object] = []
    for part in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if get_origin(part) is Literal:
            values += get_args(part)
        elif part in _TYPE_NAMES:
            types.append(part)
        else:
            raise InputError(
                f"{cls.__name__}: option {option!r} is annotated {getattr(part, '__name__', part)}; an "
                "option is bool, int, float, str, None, a Literal of these, or a union"
            )
    return Accepted(tuple(types), tuple(values))


def option_text(value: object) -> str:
    """An option's value as text that `read_value` reads back."""
    if isinstance(value, str):
        is_bare = _BARE_TEXT.fullmatch(value) and read_value(value) == value
        return value if is_bare else json.dumps(value, ensure_ascii=False)
    return "none" if value is None else json.dumps(value)


def read_value(text: str) -> object:
    """A number, true, false, none, or text, in quotation marks or without."""
    if text.lower() in ("true", "false", "none", "null"):
        return {"true": True, "false": False}.get(text.lower())
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_options(text: str) -> dict[str, object]:
    """Option -> value, of "online=false, tail=pdf".

    Raises:
        ValueError: a part of the text is not `option=value`.
    """
    options: dict[str, object] = {}
    at = 0
    while text[at:].strip():
        match = _OPTION.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:].strip()!r} is not `option=value`")
        if match[1] in options:
            raise ValueError(f"{match[1]} is given twice")
        options[match[1]] = read_value(match[2])
        at = match.end()
    return options
