"""Help texts reach the screen as they were written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from leakscope.cli.main import app
from tests.cli.command import run_command


def help_texts(command: object, path: str = "leakscope") -> Iterator[tuple[str, str]]:
    yield path, getattr(command, "help", None) or ""
    for parameter in getattr(command, "params", []):
        yield f"{path} --{parameter.name}", getattr(parameter, "help", None) or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from help_texts(inner, f"{path} {name}")


def test_no_help_text_has_words_in_brackets_which_the_screen_would_swallow() -> None:
    texts = dict(help_texts(typer.main.get_command(app)))
    assert len(texts) > 100
    swallowed = {path: text for path, text in texts.items() if re.search(r"(?<!\\)\[[a-z_]+\]", text)}
    assert swallowed == {}


def test_help_has_no_line_ends_of_the_source_in_a_paragraph() -> None:
    """The terminal wraps a paragraph at its own width; line ends at another width leave short lines."""
    texts = dict(help_texts(typer.main.get_command(app)))
    assert any("\n\n" in text for text in texts.values())
    wrapped = {path for path, text in texts.items() if "\n" in text.replace("\n\n", "")}
    assert wrapped == set()


@pytest.mark.parametrize("path", ["", "audit", "bank merge", "config schema", "data list", "study scaling"])
def test_no_help_shows_a_type_for_a_switch_which_takes_no_value(path: str) -> None:
    shown = run_command(*path.split(), "--help")
    assert shown.exit_code == 0 and "--help" in shown.out
    assert "bool" not in shown.out.lower()
    assert path != "audit" or "path" in shown.out.lower()  # other types stay


def test_every_command_hides_the_types_of_its_switches() -> None:
    """Help of one command per group is looked at above; the others are of the same classes."""

    def walk(command: Any) -> Iterator[Any]:
        yield command
        for inner in getattr(command, "commands", {}).values():
            yield from walk(inner)

    modules = {type(command).__module__ for command in walk(typer.main.get_command(app))}
    assert modules == {"leakscope.cli.app"}


def test_no_word_of_a_help_text_is_cut_off_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except in `study scaling`, where the two long names of one switch leave no room."""
    monkeypatch.setenv("COLUMNS", "80")
    command = typer.main.get_command(app)
    names = [path.split()[1:] for path, _ in help_texts(command) if " --" not in path and path != "leakscope"]
    assert ["audit"] in names and ["study", "ensemble"] in names
    cut = {" ".join(name) for name in names if "…" in run_command(*name, "--help").out}
    assert cut <= {"study scaling"}
