"""What every run folder offers, for the dynamics study."""

from __future__ import annotations

from pathlib import Path

from leakscope.disclosure import Disclosure
from leakscope.studies.dynamics.results import DynamicsResults
from leakscope.studies.dynamics.study import recompute

RESULTS_TYPE = DynamicsResults

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: DynamicsResults, disclosure: Disclosure) -> None:
    """Writes the reports of a finished study, from its results and banks."""
    from leakscope.studies.dynamics.page import write_report
    from leakscope.studies.dynamics.records import stored_records

    write_report(results, stored_records(folder, results), folder, disclosure)
