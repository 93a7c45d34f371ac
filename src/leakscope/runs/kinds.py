"""The kinds of runs, registered once: what a run.json may name, and who knows how to read such a folder.

A kind's module offers

    RESULTS_TYPE                              the dataclass that results.json holds
    recompute(folder, config) -> results      every number again, from the folder alone
    write_reports(folder, results, disclosure)    report.html, report.md and figures from the results
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from leakscope.errors import CorruptBankError, InputError

KINDS = {
    "audit": "leakscope.audits.kind",
    "attack": "leakscope.single_model.kind",
    "compare": "leakscope.compare.kind",
    "study dynamics": "leakscope.studies.dynamics.kind",
    "study ensemble": "leakscope.studies.ensemble.kind",
    "study leakage": "leakscope.studies.leakage.kind",
    "study scaling": "leakscope.studies.scaling.kind",
}
"""Kind of run, as in run.json -> its module."""


def kind_module(kind: str) -> Any:
    """The module that knows a kind of run.

    Raises:
        InputError: there is no such kind.
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r}: choose from {', '.join(KINDS)}")
    return importlib.import_module(KINDS[kind])


def known_kind(folder: Path, kind: str) -> Any:
    """The module of the kind that a run folder's run.json names.

    Raises:
        CorruptBankError: no run of ours is of that kind.
    """
    if kind not in KINDS:
        raise CorruptBankError(f"{folder}: unknown kind of run {kind!r}")
    return kind_module(kind)
