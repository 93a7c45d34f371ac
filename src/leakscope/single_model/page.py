"""The report of an attack on one given model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.run_folder import stored_array
from leakscope.report.blocks import Absent, Body, Bullets, Table
from leakscope.report.charts import Chart, PlotlyFigure, colour, guessing, line, rate_axes
from leakscope.report.gauge import Gauge
from leakscope.report.page import Page, Section
from leakscope.report.study_page import conventions, folder_facts, reproduce
from leakscope.single_model.attack import IS_MEMBER, PRIVATE, VALIDATION
from leakscope.single_model.coarse import rounding_of
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
from leakscope.stats.estimate import Estimate
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.roc import Roc, operating_point, roc

PRIVATE_TRUTH = "private_truth.npy"
"""The membership of the private records, in the run folder of a study that knows it."""
_MOST_POINTS = 400
_FPRS = (0.1, 0.05, 0.01, 0.001)
_HOLDOUT = "Attackers are fitted on one part of the public records and evaluated on the other."


def page(
    findings: AttackFindings,
    folder: Path,
    context: ReportContext,
    redacted: bool = False,
) -> Page:
    """The report with report.html, report.md and figures/roc.png.

    Each step of a ROC curve is one record, so a redacted page has a table of rates in its place. Nor does it
    have the lowest and the highest score, each of which is one record's, or hashes that depend on who is a
    member of the target. The figures come rounded.
    """
    truth = context.truth
    validation: Body = [Table(HEADINGS, validation_rows(findings)), Bullets(notes(findings))]
    compared = [Section("truth", TRUTH_TITLE, [truth.comparison], truth.note)] if truth else []
    sections = [
        *compared,
        Section("validation", "Validation", validation),
        Section("roc", "ROC", roc_body(list(findings.attackers), folder, truth is not None, redacted)),
        Section("attackers", "Attackers", _attackers(findings, redacted)),
        *context.sections,
        conventions([*DEFINITIONS, _HOLDOUT]),
        reproduce(context.command, context.seed, context.versions),
    ]
    return Page(
        f"{TITLE}: {context.subject}",
        headline(findings, truth),
        [*context.facts, *_facts(findings, "about " if redacted else "")],
        sections,
        _limits(findings, truth),
        [] if redacted else folder_facts(folder),
        picture=_gauge(findings, truth),
        redacted=redacted,
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


def _attackers(findings: AttackFindings, redacted: bool) -> Body:
    rows = [
        [
            name,
            ", ".join(f"{setting} {value}" for setting, value in one.settings.items()),
            "no" if one.stopped_early else "yes",
            f"{one.private.mean:.4f}",
            f"{one.private.sd:.4f}",
            f"{one.private.low:.4f} to {one.private.high:.4f}",
            findings.submission_sha256[name][:16],
        ]
        for name, one in findings.attackers.items()
    ]
    head = ("attacker", "settings", "converged", "mean private score", "sd", "range", "submission sha256")
    if redacted:  # the ends of a range are scores of single records
        return [Table(head[:-2], [row[:-2] for row in rows])]
    sentence = f"Each attacker's scores are in submission_ATTACKER.csv; {findings.chosen} is the chosen one."
    return [Table(head, rows), sentence]


def _gauge(findings: AttackFindings, truth: PrivateTruth | None) -> Gauge:
    figures = findings.attackers if truth is None else truth.figures
    auc = figures[findings.chosen].auc
    records = "validation" if truth is None else "private"
    start = min(0.4, math.floor(10 * auc.low) / 10)
    label = f"AUC of {findings.chosen} on the {records} records"
    return Gauge(label, auc.value, auc.low, auc.high, start, 1.0, reference=0.5)


def _facts(findings: AttackFindings, about: str) -> list[tuple[str, str]]:
    public, split = findings.public, findings.split
    return [
        (
            "Public records",
            f"{public.records:,}, of which {about}{public.members:,} are members ({public.kind})",
        ),
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


class Scored(NamedTuple):
    """An attacker's scores for records of known membership."""

    attacker: str
    part: str  # VALIDATION or PRIVATE
    scores: AnyArray
    is_member: AnyArray


def scored(attackers: Sequence[str], folder: Path, truth_known: bool) -> Iterator[Scored]:
    """Every attacker's scores in the folder: for the validation records, and for private ones if known."""
    truths = {VALIDATION: folder / VALIDATION / IS_MEMBER}
    if truth_known:
        truths[PRIVATE] = folder / PRIVATE_TRUTH
    for part, truth in truths.items():
        for name in attackers:
            path = folder / part / f"{name}.npy"
            if truth.exists() and path.exists():
                scores = stored_array(path)[0]  # the other rows: before ties are broken
                yield Scored(name, part, scores, stored_array(truth))


def roc_body(attackers: Sequence[str], folder: Path, truth_known: bool, redacted: bool) -> Body:
    """Every attacker's curve, with the TPR at four FPRs as a table behind it; redacted, the table alone."""
    curves = [(one, roc(one.scores, one.is_member)) for one in scored(attackers, folder, truth_known)]
    if not curves:
        return [Absent("The run folder no longer holds the scores, so no curve can be drawn.")]
    unknown = Absent("The membership of the private records is unknown, so they have no curve.")
    numbers = _rates(curves, redacted)
    if redacted:
        return [numbers]
    drawn = Chart("roc-chart", _figure(curves, attackers), _alt(curves), numbers, 520, png="roc")
    return [drawn] if truth_known else [drawn, unknown]


def _figure(curves: Sequence[tuple[Scored, Roc]], attackers: Sequence[str]) -> PlotlyFigure:
    smallest = 1 / max(curve.n_nonmembers for _, curve in curves)
    data = [_line(one, curve, attackers.index(one.attacker), smallest) for one, curve in curves]
    layout = {**rate_axes(smallest), "legend": {"orientation": "h", "y": -0.2}}
    return {"data": [*data, guessing(smallest, 1)], "layout": layout}


def _alt(curves: Sequence[tuple[Scored, Roc]]) -> str:
    sizes = {one.part: len(one.scores) for one, _ in curves}
    counts = " and ".join(f"{n:,} {part} records" for part, n in sizes.items())
    styles = " Solid lines: validation. Dashed lines: private." if PRIVATE in sizes else ""
    return f"ROC curve of every attacker on {counts}, on log axes.{styles}"


def _rates(curves: Sequence[tuple[Scored, Roc]], redacted: bool) -> Table:
    head = ("attacker, records", *(f"TPR at {100 * fpr:g}% FPR" for fpr in _FPRS))
    rows = [
        [f"{one.attacker}, {one.part}", *(_tpr(curve, fpr, redacted) for fpr in _FPRS)]
        for one, curve in curves
    ]
    return Table(head, rows)


def _line(one: Scored, curve: Roc, k: int, smallest: float) -> PlotlyFigure:
    """A curve thinned evenly on the log axis; what is left out is narrower than a pixel."""
    wanted = np.geomspace(smallest, 1, _MOST_POINTS)
    at = np.unique(np.searchsorted(curve.fpr, wanted, side="right") - 1)
    stroke = {"color": colour(k), "width": 2, "shape": "hv",
              "dash": "solid" if one.part == VALIDATION else "dash"}  # fmt: skip
    return line(curve.fpr[at], curve.tpr[at], f"{one.attacker}, {one.part}", colour(k), line=stroke,
                hovertemplate="FPR %{x:.2%}, TPR %{y:.2%}")  # fmt: skip


def _tpr(curve: Roc, fpr: float, redacted: bool) -> str:
    point = operating_point(curve, fpr)
    if point.reason:
        return "not resolvable"
    ends = clopper_pearson(round(point.tpr * curve.n_members), curve.n_members)
    tpr = Estimate(point.tpr, ends.low, ends.high)
    if redacted:
        tpr = rounding_of(curve.n_members, curve.n_nonmembers).figure(tpr)
    value, low, high = (100 * (end or 0.0) for end in (tpr.value, tpr.low, tpr.high))
    return f"{value:.2f}% ({low:.2f} to {high:.2f})"
