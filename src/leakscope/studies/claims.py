"""What a publication states beside what a study measured: every claim, with a verdict from a fixed list.

Each study has a module `claims` with a `StudyClaims`. It settles the claims by the results of one run or of
several: a run's report shows the table for that run alone, and `leakscope study NAME --claims
docs/results/NAME` writes docs/results/NAME.md from all results in that folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from leakscope.bank.results import parse_results
from leakscope.bank.run_folder import read_json
from leakscope.errors import InputError
from leakscope.report.blocks import Body, Table, body_markdown
from leakscope.report.page import Section

Results = TypeVar("Results")


class Outcome(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    NOISE = "reproduced, but noise"
    SAME_DIRECTION = "same direction"
    NOT_REPRODUCED = "not reproduced"
    REFUTED = "refuted"
    NOT_TESTABLE = "not testable here"


MEANINGS = {
    Outcome.REPRODUCED: "our figure agrees with the published one within its interval or its rounding",
    Outcome.NOISE: "our figure agrees, but chance alone gives much the same",
    Outcome.SAME_DIRECTION: "the effect has the published sign, but another size",
    Outcome.NOT_REPRODUCED: "at the published protocol, or as near to it as stated, the effect is absent",
    Outcome.REFUTED: "our interval excludes the claim, or the claim contradicts itself",
    Outcome.NOT_TESTABLE: "nothing here can decide it, for the reason given",
}


@dataclass(frozen=True)
class Claim:
    """A statement of a publication.

    Attributes:
        key: short name, unique within the publication.
        statement: what is claimed, in our words.
        published: the published value, empty for a claim without a number.
        protocol: how it was measured, as far as the publication says.
    """

    key: str
    statement: str
    published: str
    protocol: str = ""


@dataclass(frozen=True)
class Settled:
    """A claim and what became of it.

    Attributes:
        claim: what the publication states.
        outcome: the verdict.
        ours: our value with its interval; empty if nothing was measured.
        protocol: how ours was measured.
        why: the reason for the verdict, where the values alone do not show it.
    """

    claim: Claim
    outcome: Outcome
    ours: str = ""
    protocol: str = ""
    why: str = ""


HEAD = ("claim", "published", "ours (95% interval)", "protocol, published", "protocol, ours", "verdict")


def complete(claims: Sequence[Claim], settled: Mapping[str, Settled]) -> list[Settled]:
    """One entry per claim, in the publication's order; a claim these results say nothing about says so."""
    unknown = set(settled) - {claim.key for claim in claims}
    assert not unknown, f"settled, but not among the claims: {sorted(unknown)}"
    missing = "these results say nothing about it"
    return [settled.get(c.key, Settled(c, Outcome.NOT_TESTABLE, why=missing)) for c in claims]


def claims_table(settled: Sequence[Settled]) -> Table:
    """Every claim with its verdict."""
    rows = []
    for entry in settled:
        verdict = f"{entry.outcome}: {entry.why}" if entry.why else str(entry.outcome)
        claim = entry.claim
        rows.append([claim.statement, claim.published, entry.ours, claim.protocol, entry.protocol, verdict])
    return Table(HEAD, rows)


def claims_section(settled: Sequence[Settled]) -> Section:
    """The table as a section of a run's report."""
    return Section("claims", "Published claims", [counted(settled), claims_table(settled)])


def counted(settled: Sequence[Settled]) -> str:
    """How many claims there are, and how many of each verdict."""
    counts = Counter(entry.outcome for entry in settled)
    parts = [f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome]]
    return f"{len(settled)} claims: {', '.join(parts)}."


@dataclass(frozen=True)
class StudyClaims(Generic[Results]):
    """The claims of the publication a study reproduces, and how its results settle them.

    Attributes:
        study: name of the study.
        publication: title of the publication.
        results_type: type of the study's results.
        claims: everything the publication states, in its order.
        settle: one entry per claim, from the results of one run or of several.
        discussion: what the page says below the table: protocols, why results differ, further measurements.
    """

    study: str
    publication: str
    results_type: type[Results]
    claims: tuple[Claim, ...]
    settle: Callable[[Sequence[Results]], list[Settled]]
    discussion: Callable[[Sequence[Results]], Body]

    def page(self, folder: Path) -> str:
        """Every claim, settled by all results in a folder; Markdown."""
        results = self._read(folder)
        settled = self.settle(results)
        command = f"leakscope study {self.study} --claims docs/results/{self.study}"
        origin = f"Generated by `{command}` from the results files in `docs/results/{self.study}`."
        verdicts = "\n".join(f"- **{outcome}**: {meaning}." for outcome, meaning in MEANINGS.items())
        table = claims_table(settled).markdown()
        title = f"# Claims of *{self.publication}*"
        parts = [title, origin, counted(settled), verdicts, table, body_markdown(self.discussion(results))]
        return "\n\n".join(filter(None, parts)) + "\n"

    def counted(self, folder: Path) -> str:
        """How many claims there are, and how many of each verdict, by all results in a folder."""
        return counted(self.settle(self._read(folder)))

    def write_page(self, folder: Path) -> Path:
        """Writes FOLDER.md beside the folder of results; its path."""
        page = folder.parent / f"{folder.name}.md"
        page.write_text(self.page(folder))
        return page

    def _read(self, folder: Path) -> list[Results]:
        if not folder.is_dir():
            raise InputError(f"claims={str(folder)!r} is no folder; give one with results files (*.json)")
        files = sorted(folder.glob("*.json"))
        if not files:
            raise InputError(f"claims={str(folder)!r} has no results files (*.json)")
        return [parse_results(read_json(file), self.results_type, file) for file in files]
