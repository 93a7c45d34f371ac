"""What the pages of all studies share: facts about a run folder, the command that repeats it, page parts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import leakscope
from leakscope.bank.bank import Bank
from leakscope.bank.manifest import MANIFEST
from leakscope.bank.run_folder import RESULTS
from leakscope.disk.storage import sha256_of
from leakscope.report.blocks import Body, Bullets, Code, Table
from leakscope.report.page import Section

_DIGITS = 16
"""Digits of a hash: enough to distinguish two runs, few enough to read out."""


class Command(NamedTuple):
    """A command line, word by word; empty where no command repeats the run."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)


NO_COMMAND = Command(())


def folder_facts(folder: Path) -> list[tuple[str, str]]:
    """When and on which device the models were trained, and hashes of records, designs and results.

    The folder's name and the files' dates are left out, so that the same run gives the same page.
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
    """One fact over all banks: the first few distinct values."""
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
    """The preset closest to a configuration, and the options in which the two differ."""
    differing = {
        name: {k: v for k, v in config.items() if v != fields.get(k)} for name, fields in presets.items()
    }
    best = min(differing, key=lambda name: len(differing[name]))
    return best, differing[best]


def options(given: Mapping[str, Any]) -> list[str]:
    """Fields as command-line options; lists are joined by commas, and switches are on or off."""
    words: list[str] = []
    for name, value in given.items():
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{name.replace('_', '-')}")
            continue
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else f"{value}"
        words += [f"--{name.replace('_', '-')}", text]
    return words


def conventions(lines: Sequence[str], pairs: Mapping[str, str] | None = None) -> Section:
    """Definitions: sentences, and terms with their meaning."""
    rows = [[name.capitalize(), text] for name, text in (pairs or {}).items()]
    terms = [Table(("term", "meaning"), rows)] if rows else []
    return Section("conventions", "Conventions", [Bullets(lines), *terms])


def reproduce(command: Command, seed: int, versions: Mapping[str, Any]) -> Section:
    """The commands that repeat and verify the run, its seed and versions."""
    again: Body = (
        ["To repeat the run in a new folder:", Code(str(command))]
        if command.words
        else ["No command line has these settings; they were set in Python, and run.json contains them."]
    )
    used = ", ".join(
        f"{package} {version}" for package, version in versions.items() if isinstance(version, str)
    )
    versions_text = f"Seed {seed}. Computed with {used}. " if used else f"Seed {seed}. "
    body = [
        *again,
        "To recompute every number, and to write this page again:",
        Code("leakscope verify RUN\nleakscope report RUN"),
        f"{versions_text}Page written by leakscope {leakscope.__version__}.",
    ]
    return Section("reproduce", "How to reproduce", body)


def around(value: float, error: float | None, least: float = 0.0) -> tuple[float, float] | None:
    """The 95% interval from a standard error, clipped at `least`; None without one."""
    return None if error is None else (max(least, value - 1.96 * error), value + 1.96 * error)
