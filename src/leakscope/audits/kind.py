"""What every run folder offers, for audits: recompute the results, write the reports again."""

from __future__ import annotations

from pathlib import Path

from leakscope.bank.bank import Bank
from leakscope.disclosure import Disclosure
from leakscope.evaluate.judge import attacked, judge
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults, EvaluationConfig

RESULTS_TYPE = AuditResults


def recompute(folder: Path, config: EvaluationConfig) -> AuditResults:
    """The results from the bank and the records' metadata alone; `leakscope verify` compares them."""
    return judge(Bank.open(folder), config, RecordMetadata.read(folder)).results


def write_reports(folder: Path, results: AuditResults, disclosure: Disclosure) -> None:
    """Writes the reports again, from the results and the bank."""
    from leakscope.audits.report.page import write_report

    write_report(results, attacked(Bank.open(folder), results.config), disclosure)
