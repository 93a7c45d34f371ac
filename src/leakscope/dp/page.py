"""The page about a claim: what was claimed, the evidence, the bound against the budget, what was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import leakscope
from leakscope.dp.sentences import budget_text, claimed_text, verdict_sentence
from leakscope.dp.verdict import ClaimVerdict, Evidence, Growth, Status
from leakscope.report.blocks import Absent, Body, Bullets, Heading, Table
from leakscope.report.charts import Chart, PlotlyFigure, axis, colour, label, line
from leakscope.report.page import Badge, Page, Section

_HEAD = ("test", "lower bound", "ceiling", "confidence", "budget")
_BADGES: dict[Status, Badge] = {
    "refuted": Badge("Claim refuted", "bad"),
    "not testable": Badge("Claim not testable", "bad"),
    "consistent": Badge("Claim not refuted"),  # never green: a claim that stands is not confirmed
}
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
    """One row per test."""
    if not evidence:
        return [Absent("The tests are about single records, which this page leaves out.")]
    rows = [
        [e.name, f"{e.epsilon:.2f}", f"{e.ceiling:.2f}", f"{100 * e.confidence:.4g}%", budget_text(e)]
        for e in evidence
    ]
    methods = dict.fromkeys(f"{e.name}: {e.method}." for e in evidence)
    return [Table(_HEAD, rows), Bullets(list(methods))]


def growth_chart(verdict: ClaimVerdict, evidence: Sequence[Evidence]) -> Body:
    """Bound and ceiling of each test as its budget grows, and the claim."""
    parts = {e.name: e.growth or (_whole(e),) for e in evidence}
    if len(parts) < len(evidence):  # several methods of one test
        parts = {f"{e.method} ({e.name})": e.growth or (_whole(e),) for e in evidence}
    coins = [part.canaries * part.runs for growth in parts.values() for part in growth]
    if not coins:
        return []
    traces = [trace for i, item in enumerate(parts.items()) for trace in _traces(i, *item)]
    ends = [0.8 * min(coins), 1.25 * max(coins)]
    claim = line(ends, [verdict.epsilon] * 2, f"claimed: {verdict.epsilon:.3g}", "var(--ink)", "dot")
    layout = {
        "xaxis": axis("coins guessed about (records x models)", type="log", dtick=1),
        "yaxis": axis("epsilon", rangemode="tozero"),
        "hovermode": "closest",
    }
    rows = [
        [label(name), f"{part.canaries:,}", f"{part.runs:,}", f"{part.epsilon:.2f}", f"{part.ceiling:.2f}"]
        for name, growth in parts.items()
        for part in growth
    ]
    table = Table(("test", "records", "models", "lower bound", "ceiling"), rows)
    alt = "Lower bounds on epsilon over the number of coins, their ceilings, and the claimed epsilon."
    figure = {"data": [*traces, claim], "layout": layout}
    text = "The ceiling is the bound if every guess was right: a claim above it cannot be refuted."
    return [f"{text} Only the largest budget counts.", Chart("claim-growth", figure, alt, table, png="claim")]


def assumptions(evidence: Sequence[Evidence]) -> list[str]:
    """What has to be true for the bounds to hold, each sentence once."""
    return list(dict.fromkeys(sentence for e in evidence for sentence in e.assumed))


def _whole(evidence: Evidence) -> Growth:
    return Growth(evidence.canaries, evidence.runs, evidence.epsilon, evidence.ceiling)


def _traces(index: int, name: str, growth: Sequence[Growth]) -> list[PlotlyFigure]:
    coins, hue = [part.canaries * part.runs for part in growth], colour(index)
    bound = line(coins, [part.epsilon for part in growth], name, hue)
    ceiling = line(coins, [part.ceiling for part in growth], f"{name}: ceiling", hue, "dash")
    marked = {"mode": "lines+markers", "marker": {"color": hue, "size": 7}}
    return [{**bound, **marked}, {**ceiling, **marked}]
