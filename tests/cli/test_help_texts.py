"""Help texts reach the screen as they were written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import typer.main

from leakscope.cli.main import app


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
