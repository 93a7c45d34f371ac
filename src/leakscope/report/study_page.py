"""What all studies' pages share: facts of a folder, the command that makes it again, pieces of a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

import leakscope
from leakscope.bank.bank import Bank
from leakscope.bank.manifest import MANIFEST
from leakscope.bank.run_folder import RESULTS
from leakscope.disk.storage import sha256_of
from leakscope.report.page import Section, paragraphs
from leakscope.report.tables import table

_DIGITS = 16
"""Of a hash: enough to tell two runs apart, few enough to read out."""


class Command(NamedTuple):
    """A command line as its words; empty where none gives the run."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)


NO_COMMAND = Command(())


def folder_facts(folder: Path) -> list[tuple[str, str]]:
    """When the models were trained and on what, and hashes of records, designs and results.

    Neither the folder's name nor the files' dates: the same run gives the same page.
    """
    banks = [Bank.open(path.parent) for path in sorted(folder.rglob(MANIFEST))]
    facts: list[tuple[str, str]] = []
    if banks:
        created = sorted(bank.manifest.created for bank in banks)
        facts.append(("Trained", _day(created[0]) if len(banks) == 1 else _span(created[0], created[-1])))
        facts += _named("Device", [str(bank.manifest.device) for bank in banks])
        facts += _named("Records sha256", [bank.identity.records.sha256[:_DIGITS] for bank in banks])
        facts += _named("Design sha256", [bank.identity.design.sha256[:_DIGITS] for bank in banks])
    return [*facts, ("Results sha256", sha256_of(folder / RESULTS)[:_DIGITS])]


def _named(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """One fact of all banks: each different value once, the first few."""
    distinct = list(dict.fromkeys(values))
    more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return [(name, ", ".join(distinct[:3]) + more)]


def _day(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M} UTC"


def _span(first: str, last: str) -> str:
    return _day(first) if first[:16] == last[:16] else f"{_day(first)} to {_day(last)}"


def closest(
    presets: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The preset that differs least from a configuration, and what must be given on top of it.

    Args:
        presets: preset -> every field of the configuration it makes.
        config: the configuration, fields by name.
    """
    found = {
        name: {k: v for k, v in config.items() if v != fields.get(k)} for name, fields in presets.items()
    }
    best = min(found, key=lambda name: len(found[name]))
    return best, found[best]


def options(given: Mapping[str, Any]) -> list[str]:
    """Command-line options of fields by name; a list is joined by commas."""
    words: list[str] = []
    for name, value in given.items():
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else f"{value}"
        words += [f"--{name.replace('_', '-')}", text]
    return words


def conventions(lines: Sequence[str], pairs: Mapping[str, str] | None = None) -> Section:
    """How each figure is defined: sentences, and terms with their meaning."""
    rows = [[name.capitalize(), text] for name, text in (pairs or {}).items()]
    body = table(("term", "meaning"), rows) if rows else Markup("")
    return Section("conventions", "Conventions", bullets(lines) + body)


def reproduce(command: Command, seed: int, versions: Mapping[str, Any]) -> Section:
    """The command that makes the run again, the one that checks it, seed and versions."""
    again = (
        Markup("<p>The same run again, in a new folder:</p>\n<pre><code>{}</code></pre>\n").format(
            str(command)
        )
        if command.words
        else paragraphs(
            ["It was asked for in Python with settings no command gives; run.json holds them all."]
        )
    )
    check = Markup(
        "<p>Every number of this page, from the folder's own files:</p>\n"
        "<pre><code>leakscope verify RUN\nleakscope report RUN</code></pre>\n"
    )
    used = ", ".join(
        f"{package} {version}" for package, version in versions.items() if isinstance(version, str)
    )
    made = f"Seed {seed}. Numbers by {used}. " if used else f"Seed {seed}. "
    return Section(
        "reproduce",
        "How to reproduce",
        again + check + paragraphs([f"{made}Page by leakscope {leakscope.__version__}."]),
    )


def bullets(lines: Sequence[str]) -> Markup:
    """Sentences as a list, escaped; nothing for none."""
    if not lines:
        return Markup("")
    items = Markup("").join(Markup("<li>{}</li>\n").format(line) for line in lines)
    return Markup("<ul>\n{}</ul>\n").format(items)


def absent(words: str) -> Markup:
    """A sentence about a part that is not there."""
    return Markup('<p class="absent">{}</p>\n').format(words)


def heading(text: str) -> Markup:
    """A heading within a section."""
    return Markup("<h3>{}</h3>\n").format(text)


def grid(*parts: Markup) -> Markup:
    """Charts side by side where there is room, one under the other on a phone."""
    cells = Markup("").join(Markup("<div>{}</div>\n").format(part) for part in parts)
    return Markup('<div class="side-by-side">\n{}</div>\n').format(cells)


def around(value: float, error: float | None, least: float = 0.0) -> tuple[float, float] | None:
    """The 95% interval a standard error gives, cut at `least`; None without one."""
    return None if error is None else (max(least, value - 1.96 * error), value + 1.96 * error)
