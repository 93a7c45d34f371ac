"""Reports again, from the run folder alone: report.html, report.md and figures, whatever kind of run it is.

Nothing is trained. Numbers come from results.json; what the pages draw beside them (curves, planes, answers
about single records) comes from the banks.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from leakscope.bank.results import read_results
from leakscope.bank.run_folder import as_corrupt_run_error
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.parquet import as_corrupt_table_error
from leakscope.disk.storage import confined_to, refuse_links
from leakscope.evaluate.judge import RECORDS
from leakscope.report.page import PAGE
from leakscope.runs.kinds import read_kind


def rebuild_report(folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> Path:
    """Writes the reports of a finished run again; returns the path of report.html.

    Args:
        folder: a run folder with its results.
        disclosure: what report.html may tell about single records.
    """
    module, _ = read_kind(folder)
    refuse_links(folder)
    tables = as_corrupt_table_error(folder / RECORDS)
    with as_corrupt_run_error(folder), tables, confined_to(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that nobody measured may overflow an axis
        module.write_reports(folder, read_results(folder, module.RESULTS_TYPE), disclosure)
    return folder / PAGE
