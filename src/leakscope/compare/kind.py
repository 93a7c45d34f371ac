"""What every run folder offers, for comparisons: recompute the results, write the reports again."""

from __future__ import annotations

from pathlib import Path

from leakscope.compare.compare import recompute
from leakscope.compare.results import ComparisonResults
from leakscope.disclosure import Disclosure

RESULTS_TYPE = ComparisonResults

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: ComparisonResults, disclosure: Disclosure) -> None:
    """Writes the reports again; they reveal nothing about single records."""
    from leakscope.compare.page import write_report

    write_report(results, folder)
