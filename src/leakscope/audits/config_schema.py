"""The JSON schema of config files, with which editors complete and check them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from leakscope.audits.config_reference import (
    Setting,
    Table,
    config_tables,
    inner_table,
    is_list,
    settings_of,
    value_types,
)

Schema = dict[str, Any]
"""A part of a JSON schema."""

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "string"}


def config_schema() -> Schema:
    """The schema (draft 7, which TOML editors read) of a whole config file."""
    tables = config_tables()
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:leakscope:config",
        "title": "Config file of leakscope audit",
        "description": "What to audit, how models are trained, which attacks run and what may leak.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            table.name: _table(table, tables) for table in tables if "." not in table.name
        },
        "anyOf": [{"required": ["data"]}, {"required": ["predictions"]}],
    }  # fmt: skip


def _table(table: Table, tables: tuple[Table, ...]) -> Schema:
    inner = {other.name: other for other in tables}
    properties = {}
    for setting in table.settings:
        name = f"{table.name}.{setting.name}"
        is_table = inner_table(setting.hint) is not None
        properties[setting.name] = _table(inner[name], tables) if is_table else _setting(setting)
    return _object(table.summary, properties, table.settings)


def _object(description: str, properties: Schema, settings: tuple[Setting, ...]) -> Schema:
    required = [setting.name for setting in settings if setting.is_required]
    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _setting(setting: Setting) -> Schema:
    schema: Schema = {"description": setting.meaning, **_value(setting.hint)}
    if setting.default is not None and not setting.is_required:
        default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
        schema["default"] = default
    return schema


def _value(hint: Any) -> Schema:
    types = value_types(hint)
    if len(types) > 1:
        return {"anyOf": [_value(one) for one in types]}
    (one,) = types
    if get_origin(one) is Literal:
        return {"enum": list(get_args(one))}
    if is_list(one):
        return {"type": "array", "items": _value(get_args(one)[0])}
    if isinstance(one, type) and dataclasses.is_dataclass(one):
        settings = settings_of(one)
        summary = (one.__doc__ or "").strip().splitlines()[0]
        return _object(summary, {setting.name: _setting(setting) for setting in settings}, settings)
    return {"type": _NAMES.get(one, "object")}
