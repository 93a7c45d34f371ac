"""What every run folder offers, for attacks on one given model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.disclosure import Disclosure
from leakscope.single_model.attack import recompute

RESULTS_TYPE = dict

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    """Reports again, from the results and the scores on disk."""
    from leakscope.single_model.report import write_report

    write_report(results, folder, disclosure=disclosure)
