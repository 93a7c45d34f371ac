"""The section that says what to do: a remedy for each finding, limits to set, what the rating rests on."""

from __future__ import annotations

from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.levels import LEVELS
from leakscope.evaluate.limits import audit_outcome
from leakscope.evaluate.nouns import Noun
from leakscope.evaluate.rating_scale import Placed, placed_parts
from leakscope.evaluate.rating_sentences import interval_of, rating_rows, rule_of_auc, shown
from leakscope.evaluate.remedies import CALLS_FOR_A_DEFENCE, Remedy, remedies
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.suggested_gate import suggested_gate
from leakscope.report.blocks import Absent, Block, Body, Bullets, Code, Heading, Table
from leakscope.report.levels import LeveledFigure, Levels
from leakscope.report.page import Section

_RATING = "The level of a figure is that of the lower end of its interval; docs/rating.md defines the levels."
_EXPOSED = (
    "Exposed records make the rating at least low; their share does not raise it, as more models detect more."
)


_PICTURE = (
    "Each dot is a figure of this audit, each line its 95% interval. The lower end of the interval sets the "
    "level of the figure. The rating is the highest level; exposed records and a failed gate can raise it."
)
_NAMES = {
    "auc": "On average over all records (AUC)",
    "advantage": "At the best threshold, over all records (advantage)",
    "worst": "On the most exposed 1% of records (bits)",
    "canaries": "On canaries (AUC)",
}
"""The figures in words that a reader of the first screen knows; others have their own names."""


def what_to_do_section(results: AuditResults) -> Section:
    """Remedies, suggested limits and the rating."""
    body: Body = [*_remedies(results), *_gate(results), *_rating(results)]
    note = "What follows from the findings of this audit. Where it found nothing, there is no advice."
    return Section("what-to-do", "What to do", body, note)


def _remedies(results: AuditResults) -> list[Block | str]:
    blocks: list[Block | str] = []
    for remedy in remedies(results):
        blocks += [Heading(remedy.finding.capitalize()), remedy.found, remedy.advice]
        blocks += [Code(remedy.code)] if remedy.code else []
        blocks.append(f"Cost: {remedy.cost[0].lower()}{remedy.cost[1:]}")
    if blocks:
        return blocks
    return [Absent(_without_remedies(results))]


def _without_remedies(results: AuditResults) -> str:
    """Why there is no advice; a leak that leakscope cannot treat is still a leak."""
    if undermining(results.hygiene):
        return "Nothing follows from figures that nobody can trust: repair the audit first."
    if results.rating.level in CALLS_FOR_A_DEFENCE:
        return (
            f"The rating is {results.rating.level}, and leakscope did not train this model, so it cannot try "
            "defences on it. Train the model again with a defence, and audit it again; docs/defences.md "
            "lists what can be changed."
        )
    if results.rating.level == "inconclusive":
        return (
            "The audit found nothing, and could have missed a high leak: audit with more models or "
            f"{results.config.noun.many}."
        )
    return "The audit found nothing that calls for a change of data or training."


def _gate(results: AuditResults) -> list[Block | str]:
    if undermining(results.hygiene):
        return []
    suggested = suggested_gate(results)
    return [Heading("Suggested gate"), Code(suggested.toml), Bullets(suggested.reasons)]


def actions(results: AuditResults) -> list[str]:
    """What to do in one line each, for the first screen."""
    is_void = bool(undermining(results.hygiene))
    first = []
    if is_void:
        first = ["Repair the audit first: nothing follows from its figures."]
    elif audit_outcome(results) == "inconclusive":
        first = [
            f"Audit with more models or {results.config.noun.many}: this audit cannot decide every limit or "
            "claim."
        ]
    advised = [_in_one_line(remedy) for remedy in remedies(results)]
    limits = "Set limits that the next audit must keep; the section below suggests some."
    unset = [limits] if results.gate is None and not is_void else []
    advised = advised or ([] if first else [_without_remedies(results)])
    return [*first, *advised, *unset]


def _in_one_line(remedy: Remedy) -> str:
    """The finding and the first sentence of the advice."""
    advice = remedy.advice.partition(". ")[0].rstrip(".")
    return f"{remedy.finding.capitalize()}: {advice[0].lower()}{advice[1:]}."


def rating_picture(results: AuditResults) -> Levels | None:
    """The figures of the rating on the scale of levels; None where none has an interval."""
    figures = [_leveled(placed, results.config.noun) for placed in placed_parts(results)]
    return (
        Levels(LEVELS, figures, results.config.noun.say(f"{_PICTURE}{rule_of_auc(results)}"))
        if figures
        else None
    )


def _leveled(placed: Placed, noun: Noun) -> LeveledFigure:
    part = placed.part
    value = f"{shown(part, part.value)} ({interval_of(part)})"
    name = noun.say(_NAMES[part.about]) if part.about in _NAMES else part.what
    return LeveledFigure(name, value, part.level, placed.value, placed.low, placed.high)


def _rating(results: AuditResults) -> list[Block | str]:
    rows = rating_rows(results)
    if not rows:
        return []
    head = ["figure", "value", "95% interval", "level", "upper end"]
    picture = None if undermining(results.hygiene) else rating_picture(results)
    drawn = [picture] if picture is not None and results.gate is not None else []
    has_exposed = any(part.about == "exposed" and part.value for part in results.rating.parts)
    exposed = f" {results.config.noun.say(_EXPOSED)}" if has_exposed else ""
    note = f"{_RATING}{rule_of_auc(results)}{exposed}"
    return [Heading("Rating"), *drawn, Table(head, rows, note)]
