"""The page about a claim: what was claimed, the evidence, the bound against the budget, what was assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import leakscope
from leakscope.dp.bounds import ceiling_of_guesses
from leakscope.dp.sentences import budget_text, claimed_text, verdict_sentence
from leakscope.dp.verdict import ClaimVerdict, Evidence, Growth, Status
from leakscope.privacy.claim import Claim
from leakscope.report.blocks import Absent, Body, Bullets, Heading, Table
from leakscope.report.charts import Chart, PlotlyFigure, axis, colour, line
from leakscope.report.page import Badge, Page, Section

_HEAD = ("test", "lower bound", "ceiling", "confidence", "budget")
_BADGES: dict[Status, Badge] = {
    "refuted": Badge("Claim refuted", "bad"),
    "unsupported": Badge("Claim unsupported", "bad"),
    "not testable": Badge("Claim not testable", "bad"),
    "consistent": Badge("Claim not refuted"),  # never green: a claim that stands is not confirmed
}
_HIGHEST = 64.0
"""A ceiling above it is none."""
_LIMITS = (
    "A test can refute a claim. No number of tests confirms one.",
    "Another attack, other canaries or more models may refute a claim that stands here.",
    "What happens before training is not tested: preprocessing, the choice of settings, other releases.",
)


def claim_badge(verdict: ClaimVerdict) -> Badge:
    """The verdict in two or three words."""
    return _BADGES[verdict.status]


def claim_page(verdict: ClaimVerdict, folder: Path | str) -> None:
    """Writes report.html, report.md and figures/claim.png about one claim to a folder."""
    headline = [verdict_sentence(verdict), *([verdict.needed] if verdict.needed else [])]
    Page(
        title=f"A claim of differential privacy: {claimed_text(verdict)}",
        headline=headline,
        facts=[
            ("Claim", claimed_text(verdict)),
            ("Confidence of a refutation", f"{verdict.confidence:.0%}"),
            ("Tests", f"{len(verdict.evidence)}, which share the error"),
            ("leakscope", leakscope.__version__),
        ],
        sections=[
            Section("evidence", "Evidence", evidence_table(verdict.evidence)),
            Section("budget", "Bound against budget", growth_chart(verdict, verdict.evidence)),
            Section("assumed", "Assumed", [Bullets(assumptions(verdict.evidence))]),
        ],
        limits=_LIMITS,
        badges=[claim_badge(verdict)],
    ).write(Path(folder))


def claim_section(
    verdict: ClaimVerdict, sentences: Sequence[str], supposed: Sequence[Evidence], redacted: bool = False
) -> Section:
    """The claim as a section of an audit's report.

    Args:
        verdict: the outcome.
        sentences: the outcome in sentences.
        supposed: tests under a further assumption, which do not decide.
        redacted: leaves out tests about a single record.
    """
    shown = [evidence for evidence in verdict.evidence if evidence.canaries > 1 or not redacted]
    further = [evidence for evidence in supposed if evidence.canaries > 1 or not redacted]
    body: list[Body] = [sentences, evidence_table(shown)]
    if further:
        note = "These bounds suppose a Gaussian trade-off, which nobody claimed. They decide nothing."
        body += [[Heading("Where the trade-off is Gaussian"), note], evidence_table(further)]
    body += [growth_chart(verdict, shown), [Heading("Assumed"), Bullets(assumptions(shown))]]
    note = f"Claimed: {claimed_text(verdict)}. Tests bound epsilon from below; a bound above it refutes it."
    return Section("claim", "Claim", [block for part in body for block in part], note)


def evidence_table(evidence: Sequence[Evidence]) -> Body:
    """One row per test, and how its bound was computed."""
    if not evidence:
        return [Absent("The tests are about single records, which this page leaves out.")]
    names = _names(evidence)
    rows = [
        [name, f"{e.epsilon:.2f}", _ceiling_text(e.ceiling), f"{100 * e.confidence:.4g}%", budget_text(e)]
        for name, e in zip(names, evidence, strict=True)
    ]
    methods = [f"{name}: {e.method}." for name, e in zip(names, evidence, strict=True)]
    return [Table(_HEAD, rows), Bullets(methods)]


def growth_chart(verdict: ClaimVerdict, evidence: Sequence[Evidence]) -> Body:
    """Bound and ceiling of each test as its budget grows, and the claim."""
    parts = {name: e.growth or (_whole(e),) for name, e in zip(_names(evidence), evidence, strict=True)}
    coins = [part.canaries * part.runs for growth in parts.values() for part in growth]
    if not coins:
        return []
    traces = [trace for i, item in enumerate(parts.items()) for trace in _traces(i, *item)]
    if not any(e.growth for e in evidence):
        traces.append(_ceilings(verdict, max(coins), min(e.confidence for e in evidence)))
        coins += [n for trace in traces for n in trace["x"]]
    ends = [0.8 * min(coins), 1.25 * max(coins)]
    claim = line(ends, [verdict.epsilon] * 2, f"claimed: {verdict.epsilon:.3g}", "var(--ink)", "dot")
    layout = {
        "xaxis": axis("coins guessed about (records x models)", type="log", dtick=1),
        "yaxis": axis("epsilon", rangemode="tozero"),
        "hovermode": "closest",
    }
    alt = "Lower bounds on epsilon over the number of coins, their ceilings, and the claimed epsilon."
    figure = {"data": [*traces, claim], "layout": layout}
    text = "The ceiling is the bound if every guess was right: a claim above it cannot be refuted."
    chart = Chart("claim-growth", figure, alt, _growth_table(parts), height=420, png="claim")
    return [f"{text} Only the whole budget counts.", chart]


def _growth_table(parts: Mapping[str, Sequence[Growth]]) -> Table:
    rows = [
        [name, f"{part.canaries:,}", f"{part.runs:,}", f"{part.epsilon:.2f}", _ceiling_text(part.ceiling)]
        for name, growth in parts.items()
        for part in growth
    ]
    return Table(("test", "records", "models", "lower bound", "ceiling"), rows)


def _names(evidence: Sequence[Evidence]) -> list[str]:
    """A name per test; of tests that share theirs, with a number in front."""
    names = [e.name for e in evidence]
    if len(set(names)) == len(names):
        return names
    return [f"{number}. {name}" for number, name in enumerate(names, 1)]


def _ceiling_text(ceiling: float) -> str:
    return "none" if ceiling > _HIGHEST else f"{ceiling:.2f}"


def _ceilings(verdict: ClaimVerdict, n_coins: int, confidence: float) -> PlotlyFigure:
    """What guesses could reach with other budgets, for any trade-off."""
    claim = Claim(verdict.epsilon, verdict.delta)
    numbers = [max(2, round(n_coins * 2.0**k)) for k in range(-3, 3)]
    reached = [ceiling_of_guesses(n, claim, 1 - confidence) for n in numbers]
    return line(numbers, reached, "ceiling of guesses, any trade-off", "var(--muted)", "dash")


def assumptions(evidence: Sequence[Evidence]) -> list[str]:
    """What has to be true for the bounds to hold, each sentence once."""
    return list(dict.fromkeys(sentence for e in evidence for sentence in e.assumed))


def _whole(evidence: Evidence) -> Growth:
    return Growth(evidence.canaries, evidence.runs, evidence.epsilon, evidence.ceiling)


def _traces(index: int, name: str, growth: Sequence[Growth]) -> list[PlotlyFigure]:
    coins, hue = [part.canaries * part.runs for part in growth], colour(index)
    marked = {"mode": "lines+markers", "marker": {"color": hue, "size": 7}}
    bound = {**line(coins, [part.epsilon for part in growth], name, hue), **marked}
    ceilings = [part.ceiling if part.ceiling <= _HIGHEST else None for part in growth]
    if not any(ceilings):
        return [bound]
    return [bound, {**line(coins, ceilings, f"{name}: ceiling", hue, "dash"), **marked}]
