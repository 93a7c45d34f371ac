"""What every run folder offers, for the ensemble study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.disclosure import Disclosure
from leakscope.studies.ensemble.study import recompute

RESULTS_TYPE = dict

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    """Reports again, from the results and the scores on disk."""
    from leakscope.single_model.report import write_report
    from leakscope.studies.ensemble.study import comparison_lines

    write_report(results, folder, comparison_lines(results), disclosure)
