"""The settings that turn one recipe into another, as the tables of a config file.

They are derived from the fields that differ, so every defence can be written down, also one that is not
shipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from leakscope.errors import InputError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, Recipe
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.user_code import path_of

_OF_THE_MODEL = ("net", "net_options")


def settings_of(
    before: AnyRecipe,
    after: AnyRecipe,
    outputs_before: OutputFilter = NO_FILTER,
    outputs_after: OutputFilter = NO_FILTER,
) -> str:
    """TOML: what to set in the config of `before` so that models are trained and queried as in `after`.

    Empty where nothing changes. Each table holds only the settings that change; in a config that has the
    table already, they replace or join those that are there.

    Raises:
        InputError: no settings of a config turn one recipe into the other.
    """
    if type(before) is not type(after):
        raise InputError(f"{type(before).__name__} and {type(after).__name__} are different kinds of models")
    tables: dict[str, Mapping[str, object]] = {}
    if isinstance(before, Recipe) and isinstance(after, Recipe):
        tables["model"] = _changed(before, after, ("net",))
        tables["model.options"] = _differences(dict(before.net_options), dict(after.net_options))
        names = tuple(f.name for f in fields(after) if f.name not in _OF_THE_MODEL)
        tables["training"] = _changed(before, after, names)
    elif isinstance(before, EstimatorRecipe) and isinstance(after, EstimatorRecipe):
        classes = [path_of(type(recipe.estimator)) for recipe in (before, after)]
        tables["model"] = {"estimator": classes[1]} if classes[0] != classes[1] else {}
        tables["model.options"] = _differences(*(_parameters(recipe) for recipe in (before, after)))
    tables["outputs"] = _changed(outputs_before, outputs_after, tuple(f.name for f in fields(OutputFilter)))
    texts = [text for name, table in tables.items() for text in _tables(name, table)]
    return "\n".join(texts)


def _changed(before: object, after: object, names: tuple[str, ...]) -> dict[str, object]:
    return _differences(*({name: getattr(of, name) for name in names} for of in (before, after)))


def _differences(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """The entries of `after` that `before` does not have, or has with another value."""
    return {
        name: value for name, value in after.items() if name not in before or not _equal(before[name], value)
    }


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and bool(one == other)


def _parameters(recipe: EstimatorRecipe) -> dict[str, object]:
    parameters: dict[str, object] = recipe.estimator.get_params(deep=False)
    return parameters


def _tables(name: str, table: Mapping[str, object]) -> list[str]:
    """The table as text, then one table for each nested dataclass in it; nothing where it is empty."""
    plain = {key: value for key, value in table.items() if not is_dataclass(value)}
    lines = [f"[{name}]", *(f"{key} = {_toml(f'{name}.{key}', value)}" for key, value in plain.items())]
    texts = ["\n".join(lines) + "\n"] if plain else []
    for key, value in table.items():
        if is_dataclass(value):
            texts += _tables(f"{name}.{key}", _given(value))
    return texts


def _given(value: Any) -> dict[str, object]:
    """The fields of a nested dataclass that are not None: TOML has no word for it."""
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: inner for name, inner in given.items() if inner is not None}


def _toml(name: str, value: object) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(name, item) for item in value)}]"
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return repr(value)
    raise InputError(f"{name}={value!r} cannot be written in a config")
