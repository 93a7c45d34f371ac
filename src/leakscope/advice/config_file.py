"""The user's config file with a defence in it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakscope.disk.toml_text import toml_text
from leakscope.user_code import names_code

_CODE = (("data", "dataset"), ("model", "net"), ("model", "estimator"), ("model", "train"))


def with_settings(config: str, settings: str) -> str:
    """The config with the tables of a defence joined to its own."""
    return toml_text(_joined(tomllib.loads(config), tomllib.loads(settings)))


def ready_tables(config: str | None, settings: str) -> str:
    """The tables that a defence changes, whole, to replace those of the config."""
    if config is None:
        return settings.strip()
    joined = tomllib.loads(with_settings(config, settings))
    return toml_text({name: joined[name] for name in tomllib.loads(settings)}).strip()


def moved(config: str, old: Path, new: Path) -> str:
    """The config for another folder: a relative path of the data leads to the same file.

    Args:
        config: its text.
        old: folder that relative paths in it are relative to.
        new: folder to write it to.
    """
    content = tomllib.loads(config)
    data = content.get("data", {})
    if "file" in data:
        file = old / Path(data["file"]).expanduser()
        data["file"] = file.as_posix() if file.is_absolute() else os.path.relpath(file, new)
    return toml_text(content)


def named_code(config: str) -> list[str]:
    """Code that the config names and that may lie beside it; modules of scikit-learn do not."""
    content = tomllib.loads(config)
    named = [str(content.get(table, {}).get(key, "")) for table, key in _CODE]
    attacks = content.get("attacks", {}).get("names", [])
    texts = [*named, *(one for one in attacks if isinstance(one, str))]
    return [text for text in texts if names_code(text) and not text.startswith("sklearn.")]


def _joined(own: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    joined = dict(own)
    for name, value in added.items():
        is_table = isinstance(value, dict) and isinstance(joined.get(name, {}), dict)
        joined[name] = _joined(joined.get(name, {}), value) if is_table else value
    return joined
