"""An audit for a CI pipeline: its decisions as test cases, and a summary for the page of a job.

Both contain what a redacted page contains at most: figures of all records together, rounded for a
given model. Whoever can read the log of a pipeline can read them.
"""

from __future__ import annotations

from collections.abc import Iterator

from leakscope.audits.report.cells import attack_table, remarks
from leakscope.evaluate.coarse import shareable
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.limits import audit_outcome
from leakscope.evaluate.rating_sentences import rating_sentence
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.sentences import (
    claim_sentences,
    has_failed_check,
    limitations,
    opening_sentences,
    population_sentence,
    strongest_sentence,
    title,
)
from leakscope.report.blocks import Body, Bullets, Table, body_markdown, plain
from leakscope.report.junit import Case, CaseOutcome, junit_xml

_OF_CLAIMS: dict[str, CaseOutcome] = {"refuted": "failed", "consistent": "passed"}


def audit_junit(results: AuditResults) -> bytes:
    """The audit as a JUnit file; it has a failure or an error exactly where the exit code is not 0."""
    return junit_xml(f"leakscope audit of {results.config.records}", audit_cases(shareable(results)))


def audit_cases(results: AuditResults) -> tuple[Case, ...]:
    """Every limit, the claim and every check of the audit; first the rating, which decides nothing."""
    return tuple(_cases(results))


def _cases(results: AuditResults) -> Iterator[Case]:
    yield Case("audit", "rating", "passed", rating_sentence(results))
    for limit in results.gate.limits if results.gate else ():
        name = limit.limit_on if limit.fpr is None else f"{limit.limit_on} at {100 * limit.fpr:g}% FPR"
        yield Case("gate", name, limit.outcome, limit.sentence)
    if results.claim is not None:
        status = "" if has_failed_check(results) else results.claim.verdict.status
        yield Case("claim", "epsilon", _OF_CLAIMS.get(status, "inconclusive"), claim_sentences(results)[0])
    for check in results.hygiene:
        yield Case("checks", check.name, _outcome_of(check), f"{check.status}: {check.sentence}")


def _outcome_of(check: Outcome) -> CaseOutcome:
    """Only a failed check makes an audit inconclusive by itself; others do so through the gate."""
    return "inconclusive" if check.status == "failed" else "passed"


def job_summary(results: AuditResults) -> str:
    """Markdown for the page of a CI job."""
    results = shareable(results)
    decided = [case for case in audit_cases(results) if case.group in ("gate", "claim")]
    rows = [[case.name, case.outcome, case.sentence] for case in decided]
    doubts = [check for check in results.hygiene if check.status in ("failed", "unreliable", "warning")]
    figures: Body = [strongest_sentence(results), attack_table(results), *remarks(results)]
    body: Body = [
        " ".join([*opening_sentences(results), rating_sentence(results), population_sentence(results)]),
        *([Table(["limit", "outcome", "why"], rows)] if rows else []),
        *([] if has_failed_check(results) else figures),
        *([Bullets([f"Check {c.name}, {c.status}: {c.sentence}" for c in doubts])] if doubts else []),
        Bullets(limitations(results)),
    ]
    outcome = audit_outcome(results)
    decision = "No gate was set" if outcome is None else f"Outcome: {outcome}"
    return f"## {plain(title(results))}\n\n**{decision}**\n\n{body_markdown(body)}\n"
