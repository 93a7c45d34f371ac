"""Attacks as text: "lira", "lira(online=false)", "my_package.attacks:Margin(power=2)".

The same text works in a config file, on the command line, in Python and in results.json:

    resolve("rmia")                               a shipped attack with its defaults
    resolve("lira(online=false)")                 with options
    resolve({"name": "lira", "online": False})    the same, as a table of a config file
    resolve("my_package.attacks:Margin")          a class of yours
    resolve(Lira(online=False))                   an object, as it is
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from leakscope.attacks.base import Attack
from leakscope.attacks.registry import attack_classes
from leakscope.errors import InputError
from leakscope.user_code import import_object, names_code

AttackSpec = str | Attack | Mapping[str, Any]
"""What a user may write for an attack."""


def resolve(spec: AttackSpec, folder: Path | None = None) -> Attack:
    """The attack a user means.

    Args:
        spec: a name, text with options, "package.module:Class", a table with `name`, or an attack.
        folder: where a user's module may lie, beside the current folder.

    Raises:
        InputError: there is no such attack or option, or a value does not fit.
    """
    if isinstance(spec, Attack):
        _check_class(type(spec), type(spec).__qualname__)
        return spec
    if isinstance(spec, Mapping):
        options = dict(spec)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise InputError(f"attack={dict(spec)}: give its `name`, for example {{name = 'lira'}}")
    elif isinstance(spec, str):
        name, options = _parsed(spec)
    else:
        raise InputError(f"attack={spec!r}: expected a name, a table with `name`, or an Attack object")
    return _made(_class_of(name, folder), name, options)


def resolve_all(specs: Iterable[AttackSpec], folder: Path | None = None) -> tuple[Attack, ...]:
    """Several attacks; one that is named twice counts once.

    Raises:
        InputError: there is none, or two different attacks have the same label.
    """
    found: dict[str, Attack] = {}
    for attack in (resolve(spec, folder) for spec in specs):
        if found.setdefault(attack.label, attack) != attack:
            raise InputError(f"attacks: two different attacks are called {attack.label!r}; rename one")
    if not found:
        raise InputError(f"attacks=[]: choose from {', '.join(sorted(attack_classes()))}")
    return tuple(found.values())


def spec_of(attack: Attack) -> str:
    """Text that `resolve` turns into the same attack."""
    cls = type(attack)
    name = attack.name if attack_classes().get(attack.name) is cls else f"{cls.__module__}:{cls.__qualname__}"
    return name + attack.label.removeprefix(attack.name)


def _class_of(name: str, folder: Path | None) -> type[Attack]:
    known = attack_classes()
    if name in known:
        return known[name]
    if not names_code(name):
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"attack={name!r} is unknown; {hint}choose from {', '.join(sorted(known))}, or give your own as "
            "'package.module:Class'"
        )
    found = import_object("attack", name, "my_package.attacks:MyAttack", folder)
    if not (isinstance(found, type) and issubclass(found, Attack)):
        raise InputError(f"attack={name!r} is not a subclass of leakscope.Attack")
    _check_class(found, name)
    return found


def _check_class(cls: type[Attack], name: str) -> None:
    """Refuses a class that does not declare what every attack must."""
    missing = [attribute for attribute in ("name", "needs") if not hasattr(cls, attribute)]
    if missing:
        raise InputError(f"attack={name!r} has no `{missing[0]}`; see leakscope.Attack for what to declare")
    if not is_dataclass(cls):
        raise InputError(f"attack={name!r} is not a dataclass; put @dataclass(frozen=True) above the class")
    if isinstance(cls.needs, str):
        raise InputError(f"attack={name!r}: needs={cls.needs!r} is text; write needs = ({cls.needs!r},)")


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options of "name(option=value, ...)"."""
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return name, {}
    if not rest.endswith(")"):
        raise InputError(
            f"attack={text!r}: the bracket is not closed; write for example 'lira(online=false)'"
        )
    options = {}
    for pair in filter(None, (part.strip() for part in rest[:-1].split(","))):
        option, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise InputError(f"attack={text!r}: {pair!r} is not `option=value`")
        options[option] = _value(value)
    return name.strip(), options


def _value(text: str) -> Any:
    """A number, true, false or null; else the text itself."""
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false", "none", "null") else text)
    except ValueError:
        return text.strip("'\"")


def _made(cls: type[Attack], name: str, options: dict[str, Any]) -> Attack:
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # `_class_of` has checked it
    unknown = sorted(set(options) - known)
    if unknown:
        near = get_close_matches(unknown[0], known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise InputError(f"attack={name!r}: unknown option {', '.join(unknown)}; {takes}{hint}")
    for option, value in options.items():
        _check_value(cls, name, option, value)
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        raise InputError(f"attack={name!r}: {error}") from error


def _check_value(cls: type[Attack], name: str, option: str, value: Any) -> None:
    """Refuses a value whose type the option's annotation does not allow."""
    from typing import get_type_hints

    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(get_type_hints(cls)[option]).validate_python(value, strict=True)
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Input ")
        raise InputError(f"attack={name!r}: {option}={value!r}: {message}") from error


def option_defaults(cls: type[Attack]) -> dict[str, Any]:
    """Option -> its default."""
    return {f.name: f.default for f in fields(cls) if f.default is not MISSING}  # type: ignore[arg-type]
