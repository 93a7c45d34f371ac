"""Reports again, from the run folder alone: report.html, report.md and figures, whatever kind of run it is.

Nothing is trained. Numbers come from results.json; what the pages draw beside them (curves, planes, answers
about single records) comes from the banks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakscope.bank.run_folder import RESULTS, damage_told, read_json, read_run
from leakscope.bank.storage import confined_to, refuse_links
from leakscope.errors import CorruptBankError
from leakscope.judge import RECORDS
from leakscope.parquet import table_damage_told
from leakscope.report.html.page import PAGE
from leakscope.report.html.redaction import DEFAULT_DISCLOSURE, Disclosure


def rebuild_report(folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> Path:
    """Writes the reports of a finished run again; returns the path of report.html.

    Args:
        folder: a run folder with its results.
        disclosure: what report.html may tell about single records.
    """
    kind, _ = read_run(folder)
    if kind not in REBUILD:
        raise CorruptBankError(f"{folder}: unknown kind of run {kind!r}")
    refuse_links(folder)
    tables = table_damage_told(folder / RECORDS)
    with damage_told(folder), tables, confined_to(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that nobody measured may overflow an axis
        REBUILD[kind](folder, read_json(folder / RESULTS), disclosure)
    return folder / PAGE


def _audit(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    from leakscope.bank.bank import Bank
    from leakscope.judge import attacked
    from leakscope.report.audit import write_report

    found = attacked(Bank.open(folder), results["config"])
    write_report(results, found.design, found.scores, folder, disclosure)


def _attack(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    from leakscope.report.ensemble import write_report

    write_report(results, folder, disclosure=disclosure)


def _compare(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    from leakscope.report.compare import write_report

    write_report(results, folder)  # tells nothing of single records


def _dynamics(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    from leakscope.report.dynamics import write_report
    from leakscope.studies.dynamics_stored import stored_runs

    write_report(results, stored_runs(folder, results), folder, disclosure)


def _ensemble(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    from leakscope.report.ensemble import write_report
    from leakscope.studies.ensemble import comparison_lines

    write_report(results, folder, comparison_lines(results), disclosure)


def _leakage(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    from leakscope.report.leakage import write_report

    write_report(results, folder)  # tells nothing of single records


def _scaling(folder: Path, results: dict[str, Any], disclosure: Disclosure) -> None:
    from leakscope.report.scaling import write_report

    write_report(results, folder)  # tells nothing of single records


REBUILD: dict[str, Callable[[Path, dict[str, Any], Disclosure], None]] = {
    "attack": _attack,
    "audit": _audit,
    "compare": _compare,
    "study dynamics": _dynamics,
    "study ensemble": _ensemble,
    "study leakage": _leakage,
    "study scaling": _scaling,
}
"""Kind of run -> what writes its reports."""
