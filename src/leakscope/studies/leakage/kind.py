"""What every kind of run offers, for the leakage study."""

from __future__ import annotations

from pathlib import Path

from leakscope.disclosure import Disclosure
from leakscope.studies.leakage.results import LeakageResults
from leakscope.studies.leakage.study import recompute

RESULTS_TYPE = LeakageResults

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: LeakageResults, disclosure: Disclosure) -> None:
    """Writes the reports; they hold nothing about single records, so there is nothing to disclose."""
    from leakscope.studies.leakage.page import write_report

    write_report(results, folder)
