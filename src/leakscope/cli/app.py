"""An app of commands whose help fits the terminal, and shows a switch without the type of a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _Command(TyperCommand):
    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*args, help=_unwrapped(help), **options)

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_switches(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_switches(super().get_params(ctx))


class App(typer.Typer):
    """A group of commands, shown with its help where no command is given."""

    def __init__(self, help: str, **options: Any) -> None:
        super().__init__(cls=_Group, help=help, no_args_is_help=True, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Adds a command."""
        return super().command(name, cls=_Command, **options)


def _unwrapped(help: str | None) -> str | None:
    """Paragraphs on one line each: the terminal wraps them, and line ends of the source would stay."""
    return help and "\n\n".join(" ".join(paragraph.split()) for paragraph in help.split("\n\n"))


def _without_types_of_switches(parameters: list[Any]) -> list[Any]:
    """An empty `metavar` where nothing follows the option; recent versions of typer would print <bool>."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
