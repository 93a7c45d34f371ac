"""Tables of a config file, checked against the dataclasses they fill: all problems at once, in words."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from leakscope.errors import InputError, did_you_mean

T = TypeVar("T")
Toml = dict[str, Any]
"""A config file or one of its tables, as `tomllib` reads it."""


_WORDING = (("be a valid integer", "be an integer"), ("be a valid ", "be a "), ("should ", "must "))
"""How pydantic says what a value must be, and how leakscope says it."""

Problems = list[str]
"""What is wrong with a config file, one phrase per problem."""


def in_one_line(problems: Problems) -> str:
    """All problems; one that ends as a question needs no other mark."""
    return "; ".join(problems).replace("?; ", "? ")


def note_unknown(name: str, known: Collection[str], problems: Problems, section: str = "") -> None:
    """Notes a setting that does not exist, with the closest that does, or the tables that have it."""
    hint = did_you_mean(name, known, before="; ")
    if not hint:
        from leakscope.audits.config_reference import tables_with

        tables = [f"[{table}]" for table in tables_with(name)]
        hint = f"; it belongs to {' or '.join(tables)}" if tables else ""
    problems.append(f"{section}{name} is not a known setting{hint}")


def table_values(
    content: Toml, section: str, cls: type, problems: Problems, names: Collection[str] = ()
) -> Toml:
    """The values of one table that fit the annotations of a dataclass; of all its fields, or of `names`."""
    table = content.get(section, {})
    if not isinstance(table, dict):
        problems.append(f"{section}={table!r}: must be a table, written [{section}]")
        return {}
    hints, known = get_type_hints(cls), names or [field.name for field in dataclasses.fields(cls)]
    values: Toml = {}
    for name, value in table.items():
        if name not in known:
            note_unknown(name, known, problems, f"{section}.")
            continue
        where, inner = f"{section}.{name}", _table_type(hints[name])
        if inner is not None:
            values[name] = made(inner, table_values({where: value}, where, inner, problems), where, problems)
            continue
        if not _are_known(hints[name], value, where, problems):
            continue
        fits, checked = _fitting(hints[name], value, where, problems)
        if fits:
            values[name] = checked
    return values


def _table_type(hint: Any) -> type | None:
    """The dataclass that a table inside a table fills, of `Dataclass | None`; None for other settings."""
    types = get_args(hint) if isinstance(hint, UnionType) else ()
    return next((part for part in types if isinstance(part, type) and dataclasses.is_dataclass(part)), None)


def _are_known(hint: Any, value: Any, where: str, problems: Problems) -> bool:
    """Whether the tables of a list have no settings but those of their dataclass; notes each other one."""
    of = [part for part in get_args(hint) if isinstance(part, type) and dataclasses.is_dataclass(part)]
    if not of or not isinstance(value, list):
        return True
    known, before = [field.name for field in dataclasses.fields(of[0])], len(problems)
    for at, table in enumerate(value):
        for name in table if isinstance(table, dict) else ():
            if name not in known:
                note_unknown(name, known, problems, f"{where}.{at}.")
    return len(problems) == before


def made(cls: type[T], values: Toml, section: str, problems: Problems) -> T | None:
    """The dataclass made of checked values; None where it refuses them, and why is noted."""
    parameters = inspect.signature(cls).parameters.values()
    missing = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.name not in values]
    problems += [f"{section}.{name} is missing" for name in missing]
    if missing:
        return None
    try:
        return cls(**values)
    except InputError as error:
        name = section.rpartition(".")[2]
        problems.append(f"{section}: {str(error).removeprefix(f'{name}: ')}")
        return None


def _fitting(hint: Any, value: Any, where: str, problems: Problems) -> tuple[bool, Any]:
    """Whether a value fits an annotation, and the value as the annotation's type."""
    from pydantic import TypeAdapter, ValidationError

    try:
        # Strictly, so that "8" is no number; as JSON, so that a list may be a tuple and a text a path.
        return True, TypeAdapter(hint).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        first_at: dict[str, str] = {}
        for found in error.errors():
            inner = ".".join(str(part) for part in found["loc"] if isinstance(part, int))
            first_at.setdefault(f"{where}.{inner}" if inner else where, _misfit(found, hint))
        problems += [f"{place}{misfit}" for place, misfit in first_at.items()]
        return False, None


def _misfit(found: Mapping[str, Any], hint: Any) -> str:
    """A problem that pydantic reports: the value, unless it is a table, and what it should be."""
    message = found["msg"].removeprefix("Value error, ").removeprefix("Input ")
    for theirs, ours in _WORDING:
        message = message.replace(theirs, ours)
    if found["type"] == "tuple_type":
        message = f"must be a list{_example(hint)}"
    shown = "" if isinstance(found["input"], dict) else f"={found['input']!r}"
    return f"{shown}: {message}"


def _example(hint: Any) -> str:
    """How a list of tables is written; empty for other lists."""
    of = [part for part in get_args(hint) if dataclasses.is_dataclass(part)]
    if not of:
        return ""
    settings = ", ".join(f"{field.name} = ..." for field in dataclasses.fields(of[0]))
    return f" of tables, written [{{ {settings} }}]"
