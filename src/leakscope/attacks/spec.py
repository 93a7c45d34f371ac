"""Attacks as text: "lira", "lira(online=false)", "my_package.attacks:Margin(power=2)".

The same text works in a config file, on the command line, in Python and in results.json:

    resolve("rmia")                               a shipped attack with its defaults
    resolve("lira(online=false)")                 with options
    resolve({"name": "lira", "online": False})    the same, as a table of a config file
    resolve("my_package.attacks:Margin")          a class of yours
    resolve(Lira(online=False))                   an object, as it is
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from leakscope.attacks.base import Attack
from leakscope.attacks.registry import attack_classes
from leakscope.attacks.shokri import maker_of_classifier
from leakscope.errors import InputError, choose_from, did_you_mean
from leakscope.options import accepted_values, read_call
from leakscope.user_code import import_object, is_named_by_a_run, names_code, path_of, search_in

AttackSpec = str | Attack | Mapping[str, Any]
"""What a user may write for an attack."""


def resolve(spec: AttackSpec, folder: Path | None = None) -> Attack:
    """The attack a user means.

    Args:
        spec: a name, text with options, "package.module:Class", a table with `name`, or an attack.
        folder: where to look for a user's module, besides the current folder.

    Raises:
        InputError: there is no such attack or option, or the option does not accept the value.
    """
    if isinstance(spec, Attack):
        return spec
    if isinstance(spec, Mapping):
        options = dict(spec)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise InputError(f"attack={dict(spec)}: give its `name`, for example {{name = 'lira'}}")
    elif isinstance(spec, str):
        name, options = _parse(spec)
    else:
        raise InputError(f"attack={spec!r}: expected a name, a table with `name`, or an Attack object")
    named = [value for value in options.values() if isinstance(value, str) and names_code(value)]
    if named and is_named_by_a_run():
        for value in named:  # before anything calls it
            maker_of_classifier(f"attack={name!r}", value)
    elif named:
        search_in(folder)
    return _create(_class_of(name, folder), name, options)


def resolve_all(specs: Iterable[AttackSpec], folder: Path | None = None) -> tuple[Attack, ...]:
    """Several attacks; one that is given twice counts once.

    Raises:
        InputError: there is none, or two different attacks have the same label.
    """
    by_label: dict[str, Attack] = {}
    for attack in (resolve(spec, folder) for spec in specs):
        if by_label.setdefault(attack.label, attack) != attack:
            raise InputError(f"attacks: two different attacks are called {attack.label!r}; rename one")
    if not by_label:
        raise InputError(f"attacks=[]: choose from {', '.join(sorted(attack_classes()))}")
    return tuple(by_label.values())


def spec_of(attack: Attack) -> str:
    """Text that `resolve` turns into the same attack."""
    cls = type(attack)
    name = attack.name if attack_classes().get(attack.name) is cls else path_of(cls)
    return name + attack.label.removeprefix(attack.name)


def _class_of(name: str, folder: Path | None) -> type[Attack]:
    known = attack_classes()
    if name in known:
        return known[name]
    if not names_code(name):
        raise InputError(
            f"attack={name!r} is unknown; {choose_from(name, sorted(known))}, or give your own as "
            "'package.module:Class'"
        )
    cls = import_object("attack", name, "my_package.attacks:MyAttack", folder)
    if not (isinstance(cls, type) and issubclass(cls, Attack)):
        raise InputError(f"attack={name!r} is not a subclass of leakscope.Attack")
    return cls


def _parse(text: str) -> tuple[str, dict[str, object]]:
    """Name and options of "name(option=value, ...)"."""
    try:
        return read_call(text)
    except ValueError as error:
        example = "; write for example 'lira(online=false)'" if "bracket" in str(error) else ""
        raise InputError(f"attack={text!r}: {error}{example}") from error


def _create(cls: type[Attack], name: str, options: dict[str, object]) -> Attack:
    known = accepted_values(cls)
    unknown = sorted(set(options) - set(known))
    if unknown:
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        hint = did_you_mean(unknown[0], known, after=" ")
        raise InputError(f"attack={name!r}: unknown option {', '.join(unknown)}; {hint}{takes}")
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        raise InputError(f"attack={name!r}: {error}") from error
