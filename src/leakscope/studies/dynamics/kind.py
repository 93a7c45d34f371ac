"""What every run folder offers, for the dynamics study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.disclosure import Disclosure
from leakscope.studies.dynamics.study import recompute

RESULTS_TYPE = dict

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    """Reports again, from the results and the banks."""
    from leakscope.studies.dynamics.report import write_report
    from leakscope.studies.dynamics.stored import stored_runs

    write_report(results, stored_runs(folder, results), folder, disclosure)
