"""The section that says what to do: a remedy for each finding, limits to set, what the rating rests on."""

from __future__ import annotations

from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.rating_sentences import rating_rows
from leakscope.evaluate.remedies import remedies
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.suggested_gate import suggested_gate
from leakscope.report.blocks import Absent, Block, Body, Bullets, Code, Heading, Table
from leakscope.report.page import Section

_RATING = "The level of a figure is that of the lower end of its interval; docs/rating.md defines the levels."


def what_to_do_section(results: AuditResults) -> Section:
    """Remedies, suggested limits and the rating."""
    body: Body = [*_remedies(results), *_gate(results), *_rating(results)]
    note = "What follows from the findings of this audit. A part without a finding has no advice."
    return Section("what-to-do", "What to do", body, note)


def _remedies(results: AuditResults) -> list[Block | str]:
    blocks: list[Block | str] = []
    for remedy in remedies(results):
        blocks += [Heading(remedy.finding.capitalize()), remedy.found, remedy.advice]
        blocks += [Code(remedy.code)] if remedy.code else []
        blocks.append(f"Cost: {remedy.cost[0].lower()}{remedy.cost[1:]}")
    if blocks:
        return blocks
    if undermining(results.hygiene):
        return [Absent("Nothing follows from figures that cannot be trusted: repair the audit first.")]
    return [Absent("The audit found nothing that calls for a change of data or training.")]


def _gate(results: AuditResults) -> list[Block | str]:
    if undermining(results.hygiene):
        return []
    suggested = suggested_gate(results)
    return [Heading("Suggested gate"), Code(suggested.toml), Bullets(suggested.reasons)]


def _rating(results: AuditResults) -> list[Block | str]:
    rows = rating_rows(results)
    if not rows:
        return []
    head = ["figure", "value", "95% interval", "level", "upper end"]
    return [Heading("Rating"), Table(head, rows, _RATING)]
