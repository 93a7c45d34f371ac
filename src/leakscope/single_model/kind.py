"""Run folders of attacks on one given model: their results, recomputed and reported."""

from __future__ import annotations

from pathlib import Path

from leakscope.disclosure import Disclosure
from leakscope.single_model.attack import recompute
from leakscope.single_model.results import AttackResults

RESULTS_TYPE = AttackResults

__all__ = ["RESULTS_TYPE", "recompute", "write_reports"]


def write_reports(folder: Path, results: AttackResults, disclosure: Disclosure) -> None:
    """Writes the reports again, from the results and the scores on disk."""
    from leakscope.single_model.page import write_report
    from leakscope.single_model.report import attack_context

    write_report(results, folder, attack_context(results), disclosure)
