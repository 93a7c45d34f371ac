"""What every run folder offers, for the scaling study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.disclosure import Disclosure
from leakscope.studies.scaling.study import recompute

RESULTS_TYPE = dict

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    """Reports again, from the results; they say nothing about single records."""
    from leakscope.studies.scaling.report import write_report

    write_report(results, folder)
