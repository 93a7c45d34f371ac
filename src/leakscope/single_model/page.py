"""The report of an attack on one given model."""

from __future__ import annotations

import math
from pathlib import Path

from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.report.blocks import Body, Bullets, Table
from leakscope.report.gauge import Gauge
from leakscope.report.page import Page, Section
from leakscope.report.study_page import conventions, folder_facts, reproduce
from leakscope.single_model.attack import SUBMISSION
from leakscope.single_model.page_roc import roc_body
from leakscope.single_model.report import (
    DEFINITIONS,
    HEADINGS,
    OPTIMISTIC,
    TITLE,
    TRUTH_TITLE,
    PrivateTruth,
    ReportContext,
    fitted_sentence,
    notes,
    ranking,
    score_sentence,
    validation_rows,
    validation_sentence,
)
from leakscope.single_model.results import AttackFindings

_HOLDOUT = "Attackers are fitted on one part of the public records and evaluated on the other."


def write_report(
    findings: AttackFindings,
    folder: Path,
    context: ReportContext,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> None:
    """Writes report.html, report.md and figures/roc.png; they reveal nothing about single records.

    Args:
        findings: as results.json holds them.
        folder: the run folder.
        context: what the report says beside the findings.
        disclosure: whether report.html says that it is redacted.
    """
    page(findings, folder, context, disclosure).write(folder)


def page(
    findings: AttackFindings,
    folder: Path,
    context: ReportContext,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> Page:
    """The report; arguments as in `write_report`."""
    truth = context.truth
    validation: Body = [Table(HEADINGS, validation_rows(findings)), Bullets(notes(findings))]
    compared = [Section("truth", TRUTH_TITLE, [truth.comparison], truth.note)] if truth else []
    sections = [
        *compared,
        Section("validation", "Validation", validation),
        Section("roc", "ROC", roc_body(list(findings.attackers), folder, truth is not None)),
        Section("attackers", "Attackers", _attackers(findings)),
        conventions([*DEFINITIONS, _HOLDOUT]),
        reproduce(context.command, context.seed, context.versions),
    ]
    return Page(
        f"{TITLE}: {context.subject}",
        headline(findings, truth),
        [*context.facts, *_facts(findings)],
        sections,
        _limits(findings, truth),
        folder_facts(folder),
        gauge=_gauge(findings, truth),
        redacted=disclosure.redacted,
    )


def headline(findings: AttackFindings, truth: PrivateTruth | None = None) -> list[str]:
    """The main figure first, in words: on the private records where their membership is known."""
    chosen, fitted, scores = findings.chosen, fitted_sentence(findings), score_sentence(findings)
    if truth is None:
        lead = ranking(chosen, findings.attackers[chosen].auc)
        return [f"On held-out public records, {lead}", fitted, scores]
    lead = ranking(chosen, truth.figures[chosen].auc)
    validation = validation_sentence(findings)
    return [f"On the private records, {lead}", *truth.target, fitted, validation, scores]


def _attackers(findings: AttackFindings) -> Body:
    rows = [
        [
            name,
            ", ".join(f"{setting} {value}" for setting, value in one.settings.items()),
            "no" if one.stopped_early else "yes",
            f"{one.private.low:.3f} to {one.private.high:.3f}",
        ]
        for name, one in findings.attackers.items()
    ]
    digest = findings.submission_sha256[:16]
    sentence = f"{SUBMISSION} (sha256 {digest}) holds the scores of {findings.chosen}."
    return [Table(("attacker", "settings", "converged", "range of private scores"), rows), sentence]


def _gauge(findings: AttackFindings, truth: PrivateTruth | None) -> Gauge:
    figures = findings.attackers if truth is None else truth.figures
    auc = figures[findings.chosen].auc
    records = "validation" if truth is None else "private"
    start = min(0.4, math.floor(10 * auc.low) / 10)
    label = f"AUC of {findings.chosen} on the {records} records"
    return Gauge(label, auc.value, auc.low, auc.high, start, 1.0, reference=0.5)


def _facts(findings: AttackFindings) -> list[tuple[str, str]]:
    public, split = findings.public, findings.split
    return [
        ("Public records", f"{public.records:,}, of which {public.members:,} are members ({public.kind})"),
        ("Split", f"{split.training:,} to fit on, {split.validation:,} to evaluate on"),
        ("Private records", f"{findings.private.records:,}"),
        ("Attackers", ", ".join(findings.attackers)),
    ]


def _limits(findings: AttackFindings, truth: PrivateTruth | None) -> list[str]:
    limits = [
        "The figures describe one model. Another training of the same network may leak more or less.",
        "The attackers need public records whose membership is known. Without them there is no such attack.",
    ]
    if len(findings.attackers) > 1:
        limits.append(OPTIMISTIC)
    if truth is None:
        limits.append(
            "How well the private records are scored is unknown: their membership is not used, so only the "
            "public records can be evaluated."
        )
    return limits
