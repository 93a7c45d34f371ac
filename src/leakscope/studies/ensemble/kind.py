"""Run folders of the ensemble study: their results, recomputed and reported."""

from __future__ import annotations

from pathlib import Path

from leakscope.disclosure import Disclosure
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.ensemble.study import recompute

RESULTS_TYPE = EnsembleResults

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: EnsembleResults, disclosure: Disclosure) -> None:
    """Writes the reports again, from the results, the bank and the scores on disk."""
    from leakscope.single_model.page import write_report
    from leakscope.studies.ensemble.report import study_context

    write_report(results, folder, study_context(results, folder), disclosure)
