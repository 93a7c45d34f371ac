"""What every kind of run offers, for the scaling study."""

from __future__ import annotations

from pathlib import Path

from leakscope.disclosure import Disclosure
from leakscope.studies.scaling.results import ScalingResults
from leakscope.studies.scaling.study import recompute

RESULTS_TYPE = ScalingResults

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: ScalingResults, disclosure: Disclosure) -> None:
    """Writes the reports; they hold nothing about single records, so there is nothing to disclose."""
    from leakscope.studies.scaling.page import write_report

    write_report(results, folder)
