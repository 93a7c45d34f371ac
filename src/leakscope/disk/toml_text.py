"""Data as the text of a TOML file that reads back the same: what config files of ours hold."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(tables: Mapping[str, object]) -> str:
    """A file of tables; each value of a table is on one line."""
    return "\n\n".join(toml_table(name, values) for name, values in tables.items()) + "\n"


def toml_table(name: str, values: object) -> str:
    """One table with its heading, or a single setting."""
    if not isinstance(values, Mapping):
        return f"{_key(name)} = {toml_value(values)}"
    lines = [f"{_key(key)} = {toml_value(value)}" for key, value in values.items() if value is not None]
    return "\n".join([f"[{_key(name)}]", *lines])


def toml_value(value: object) -> str:
    """One value; a mapping is an inline table. TOML has no null, so a None in it is left out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # nan, inf and exponents are written as Python writes them
    if isinstance(value, Mapping):
        inner = (f"{_key(key)} = {toml_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {', '.join(inner)} }}" if value else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON escapes as TOML does, but for the delete character, which TOML does not allow as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: object) -> str:
    text = str(name)
    return text if _BARE_KEY.fullmatch(text) else toml_value(text)
