"""Every table and setting of a config file, read from the dataclasses that config files fill.

The page docs/config.md, the JSON schema for editors and `leakscope init` are made of this list, so a setting
that exists is described, and nothing is described that does not exist.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from leakscope.audits.config import (
    AttacksSection,
    PredictionsSection,
    TargetSection,
)
from leakscope.audits.config_data import DataSection
from leakscope.audits.config_examples import EXAMPLES
from leakscope.audits.config_model import ModelSection
from leakscope.audits.settings import JUDGING, PLANTED, STORED, TRAINING, UNITS, AuditSettings
from leakscope.bank.results import attribute_docs
from leakscope.data.canaries import Canaries
from leakscope.disk.toml_text import toml_value
from leakscope.evaluate.gate import Gate
from leakscope.privacy.claim import Claim
from leakscope.recipe import Recipe
from leakscope.signals.output_filter import OutputFilter
from leakscope.signals.registry import CLASSIFICATION

_OF_NETS = ("net", "net_options")  # [model] has these two
_SUMMARIES = {
    "training": "How networks are trained.",
    "population": "How many models are trained, and where.",
    "gate": "Limits on leakage that an audit must stay within ([outcomes](exit_codes.md)).",
    "claim": "A claim of differential privacy about the training, to be put to the test.",
}
"""Tables that are only a part of their dataclass, or whose docstring is not about the table."""


class Setting(NamedTuple):
    """One setting of a table.

    Attributes:
        name: the key.
        hint: its type; None is not one of the choices.
        default: its value where the file says nothing; None: there is none.
        is_required: whether the table cannot do without it.
        meaning: what it does, in words.
    """

    name: str
    hint: Any
    default: object
    is_required: bool
    meaning: str


class Table(NamedTuple):
    """One table of a config file; `name` may have a dot, as in "training.privacy"."""

    name: str
    summary: str
    settings: tuple[Setting, ...]
    example: str


def config_tables() -> tuple[Table, ...]:
    """Every table of a config file, those inside others after them."""
    training = [f.name for f in dataclasses.fields(Recipe) if f.name not in _OF_NETS]
    population = [f.name for f in dataclasses.fields(AuditSettings) if f.name in TRAINING | UNITS]
    parts: tuple[tuple[str, type, Sequence[str]], ...] = (
        ("data", DataSection, ()),
        ("model", ModelSection, ()),
        ("training", Recipe, training),
        ("population", AuditSettings, population),
        ("attacks", AttacksSection, ()),
        ("gate", Gate, ()),
        ("target", TargetSection, ()),
        ("predictions", PredictionsSection, ()),
        ("outputs", OutputFilter, ()),
        ("canaries", Canaries, ()),
        ("claim", Claim, ()),
    )
    return tuple(table for name, cls, names in parts for table in _with_inner(name, cls, names))


def tables_with(setting: str) -> tuple[str, ...]:
    """The tables that have a setting of this name."""
    return tuple(t.name for t in config_tables() if any(own.name == setting for own in t.settings))


def inner_table(hint: Any) -> type | None:
    """The dataclass that a table inside a table fills; None for other settings."""
    types = (part for part in value_types(hint) if isinstance(part, type) and dataclasses.is_dataclass(part))
    return next(types, None)


def type_text(hint: Any) -> str:
    """What a value must be, for readers of the reference."""
    types = value_types(hint)
    if len(types) > 1:
        return " or ".join(map(type_text, types))
    (one,) = types
    if get_origin(one) is Literal:
        return ", ".join(f"`{toml_value(value)}`" for value in get_args(one))
    if is_list(one):
        of = [_of_tables(part) or f"{type_text(part)}s" for part in value_types(get_args(one)[0])]
        return f"list of {' or '.join(of)}"
    names = {str: "string", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    return names.get(one, "table")


def _of_tables(hint: Any) -> str:
    """Tables with these settings; empty where a hint is no dataclass."""
    if not dataclasses.is_dataclass(hint):
        return ""
    return f"tables ({', '.join(f'`{field.name}`' for field in dataclasses.fields(hint))})"


def is_list(hint: Any) -> bool:
    """Whether a setting is a list in TOML."""
    return get_origin(hint) in (tuple, Sequence)


def settings_of(cls: type, names: Sequence[str] = ()) -> tuple[Setting, ...]:
    """The settings of a dataclass: all of its fields, or those in `names`."""
    hints, meanings, actual = get_type_hints(cls), attribute_docs(cls), _actual_defaults(cls)
    settings = []
    for field in dataclasses.fields(cls):
        if names and field.name not in names:
            continue
        is_required = field.default is field.default_factory is dataclasses.MISSING
        default = None if is_required else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        default = actual.get(field.name, default)
        # TOML has no null: what is None in Python is not given in a file.
        meaning = meanings[field.name].replace("None:", "not given:").replace("None where", "not given where")
        meaning = meaning[:1].upper() + meaning[1:]
        settings.append(Setting(field.name, hints[field.name], default, is_required, meaning))
    return tuple(sorted(settings, key=lambda setting: not setting.is_required))


def _with_inner(name: str, cls: type, names: Sequence[str] = ()) -> Iterator[Table]:
    settings = settings_of(cls, names)
    summary = (cls.__doc__ or "").strip().split("\n\n")[0]
    yield Table(name, _SUMMARIES.get(name, " ".join(summary.split())), settings, EXAMPLES[name])
    for setting in settings:
        inner = inner_table(setting.hint)
        if inner is not None:
            yield from _with_inner(f"{name}.{setting.name}", inner)


def value_types(hint: Any) -> list[Any]:
    """The types that a value may have; TOML has no null."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return [part for part in parts if part is not NoneType]


def _actual_defaults(cls: type) -> dict[str, object]:
    """What settings of an audit are where they are not given; the dataclass only says that they are not."""
    if cls is not AuditSettings:
        return {}
    uses = JUDGING | TRAINING | UNITS | STORED | PLANTED
    resolved = AuditSettings().resolve((), (), uses, CLASSIFICATION)
    return {name: getattr(resolved, name) for name in TRAINING | UNITS}
