"""The sections an auditor's auditor reads: checks, further figures, conventions."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from leakscope.audits.report.sections import (
    CALIBRATED_TEXT,
    calibrated_cells,
    epsilon_cells,
    epsilon_text,
)
from leakscope.disclosure import Disclosure
from leakscope.report.page import Section, paragraphs
from leakscope.report.tables import table
from leakscope.report.templates import template

Results = dict[str, Any]
_TONES = {"ok": "good", "warning": "bad", "failed": "bad"}


def checks_section(results: Results) -> Section:
    """Is the audit to be believed?"""
    checks = [(check, _TONES.get(check["status"], "plain")) for check in results.get("hygiene", [])]
    if not checks:
        body = Markup('<p class="absent">{}</p>').format(
            "The facts of the records were not kept; nothing was checked."
        )
    else:
        body = template("checks.html.j2", checks=checks)
    return Section("checks", "Checks", body, "Checked before anything is believed.")


def more_section(results: Results) -> Section:
    """Epsilon from below, and thresholds an attacker could have chosen."""
    body = Markup("<h3>Epsilon, from below</h3>") + paragraphs([epsilon_text(results)])
    body += table(*epsilon_cells(results))
    body += Markup("<h3>With thresholds from the other models</h3>")
    calibrated = calibrated_cells(results)
    if calibrated.rows:
        body += paragraphs([CALIBRATED_TEXT]) + table(*calibrated)
    else:
        body += Markup('<p class="absent">{}</p>').format(
            "There is one target, or too few non-members: no other models' thresholds to judge it by."
        )
    return Section("more", "Bounds", body)


def method_section(results: Results, disclosure: Disclosure) -> Section:
    """The conventions behind the figures."""
    return Section("method", "Method", template("method.html.j2", lines=_conventions(results, disclosure)))


def _conventions(results: Results, disclosure: Disclosure) -> list[tuple[str, str]]:
    one = results["population"]["targets"] == 1
    intervals = (
        "95%, over records: DeLong (AUC), Dvoretzky-Kiefer-Wolfowitz (advantage), Clopper-Pearson (TPR)."
        if one
        else "95% t intervals of means over targets; of a single record, Clopper-Pearson and Newcombe's "
        "square-and-add over the models that saw it and that did not."
    )
    lines = [
        ("Member", "A record that was in the model's training set. Higher scores always mean member."),
        (
            "ROC",
            "Ties are exact: a threshold takes all records of one score or none. Nothing is interpolated.",
        ),
        ("TPR at an FPR", "The best threshold whose FPR is within the budget, chosen on the target itself."),
        ("Advantage", "The largest TPR minus FPR over all thresholds."),
        ("Intervals", intervals),
        ("Not resolvable", "Fewer non-members than one over the FPR: the data cannot tell."),
    ]
    exposed = results.get("exposed")
    if exposed:
        lines += [
            ("Risk of a record", f"TPR minus FPR of one record over the models: {exposed['decision']}."),
            ("Exposed", "Benjamini and Hochberg's procedure over one-sided Fisher tests; of those named, at "
             f"most {exposed['false_discovery_rate']:.0%} are expected to be false alarms."),
        ]  # fmt: skip
    return [*lines, ("Single records", _disclosed(results, disclosure))]


def _disclosed(results: Results, disclosure: Disclosure) -> str:
    if not results["config"].get("targets"):
        told = (
            "Which models saw a record is shown: random halves that were drawn for this audit, no secret "
            "about a person."
        )
    elif disclosure.with_membership:
        told = "This file tells which records the model was trained on, because that was asked for."
    else:
        told = (
            "Which records the model was trained on is not in this file, nor are their scores in it, which "
            "beside the ROC would tell; `--with-membership` puts both in."
        )
    redacted = " Raw features, labels and groups of single records are left out, and ids are hashed."
    return told + (redacted if disclosure.redacted else "")
