"""What every run folder offers, for audits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.audits.population import recompute
from leakscope.bank.bank import Bank
from leakscope.disclosure import Disclosure
from leakscope.evaluate.judge import attacked

RESULTS_TYPE = dict

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    """Reports again, from the results and the bank."""
    from leakscope.audits.report.markdown import write_report

    found = attacked(Bank.open(folder), results["config"])
    write_report(results, found.design, found.scores, folder, disclosure)
