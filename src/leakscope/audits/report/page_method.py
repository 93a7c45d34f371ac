"""The sections a reviewer of the audit reads: checks, further bounds, definitions."""

from __future__ import annotations

from markupsafe import Markup

from leakscope.audits.report.cells import (
    CALIBRATED_TEXT,
    calibrated_table,
    epsilon_table,
    epsilon_text,
)
from leakscope.disclosure import Disclosure
from leakscope.evaluate.results import AuditResults
from leakscope.report.page import Section, paragraphs
from leakscope.report.tables import table
from leakscope.report.templates import template

_TONES = {"ok": "good", "warning": "bad", "failed": "bad"}


def checks_section(results: AuditResults) -> Section:
    """Can the audit itself be trusted?"""
    checks = [(check, _TONES.get(check.status, "plain")) for check in results.hygiene]
    body = template("checks.html.j2", checks=checks)
    if not checks:
        body = Markup('<p class="absent">{}</p>').format("Nothing is known of the records; no check was run.")
    return Section("checks", "Checks", body, "Faults in the setup that would make the figures misleading.")


def bounds_section(results: AuditResults) -> Section:
    """Lower bounds on epsilon, and rates at thresholds an attacker could have chosen."""
    epsilon, calibrated = epsilon_table(results), calibrated_table(results)
    body = Markup("<h3>Lower bounds on epsilon</h3>") + paragraphs([epsilon_text(results)])
    body += table(epsilon.head, epsilon.rows)
    body += Markup("<h3>Thresholds from the other models</h3>")
    if calibrated.rows:
        body += paragraphs([CALIBRATED_TEXT]) + table(calibrated.head, calibrated.rows)
    else:
        body += Markup('<p class="absent">{}</p>').format(
            "Not available: there is only one target, or there are too few non-members."
        )
    return Section("more", "Bounds", body)


def method_section(results: AuditResults, disclosure: Disclosure) -> Section:
    """The definitions behind the figures."""
    return Section("method", "Method", template("method.html.j2", lines=_definitions(results, disclosure)))


def _definitions(results: AuditResults, disclosure: Disclosure) -> list[tuple[str, str]]:
    intervals = (
        "95% over records: DeLong for the AUC, Dvoretzky-Kiefer-Wolfowitz for the advantage, "
        "Clopper-Pearson for a TPR."
        if results.population.targets == 1
        else "95% t intervals of means over targets. For a single record: Clopper-Pearson for its rates and "
        "Newcombe's square-and-add for their difference, over models trained with and without it."
    )
    lines = [
        ("Member", "A record of the model's training set. Higher scores always mean member."),
        ("ROC", "Ties are exact: a threshold includes all records with the same score or none. There is no "
         "interpolation."),
        ("TPR at an FPR", "The highest TPR whose FPR is within the budget; the threshold is chosen on the "
         "target itself."),
        ("Advantage", "The largest difference TPR - FPR over all thresholds."),
        ("Intervals", intervals),
        ("Not measurable", "An FPR below one over the number of non-members cannot be observed."),
    ]  # fmt: skip
    if results.exposed:
        lines += [
            ("Risk of a record", "TPR - FPR of one record over the models. A model recognizes the record "
             f"when {results.exposed.decision}."),
            ("Exposed", "Benjamini and Hochberg's procedure on one-sided Fisher tests: at most "
             f"{results.exposed.false_discovery_rate:.0%} of the exposed records are expected to be false "
             "alarms."),
        ]  # fmt: skip
    return [*lines, ("Single records", _disclosure_text(results, disclosure))]


def _disclosure_text(results: AuditResults, disclosure: Disclosure) -> str:
    """What the page reveals about single records."""
    if not results.is_of_one_model:
        membership = (
            "This page says which models were trained on a record. These training sets were drawn at random "
            "for the audit, so this is no secret about a person."
        )
    elif disclosure.with_membership:
        membership = "As requested, this file says which records the model was trained on."
    else:
        membership = (
            "This file does not say which records the model was trained on, and omits their scores, from "
            "which membership could be inferred. `--with-membership` includes both."
        )
    redacted = " Raw features, labels and groups of single records are left out, and ids are hashed."
    return membership + (redacted if disclosure.redacted else "")
