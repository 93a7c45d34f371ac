"""The kinds of runs, registered once: what a run.json may name, and who knows how to read such a folder.

A kind's module offers

    RESULTS_TYPE                              the dataclass that results.json holds
    recompute(folder, config) -> results      every number again, from the folder alone
    write_reports(folder, results, disclosure)    one page from the results: the private one, with report.md
                                              and figures, or the redacted one

and may offer

    recompute_all(folder, config)             an object with `results`, `write_tables(into)` and
                                              `write_page(into, disclosure)`, for `verify`
"""

from __future__ import annotations

import importlib
import warnings
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from leakscope.bank.results import read_results, results_schema
from leakscope.bank.run_folder import as_corrupt_run_error, read_run, sealed
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.parquet import as_corrupt_table_error
from leakscope.disk.storage import confined_to
from leakscope.errors import CorruptBankError, InputError
from leakscope.evaluate.judge import RECORDS
from leakscope.report.page import PAGE, REDACTED_PAGE, pages_to_write
from leakscope.user_code import named_by_a_run

KINDS = {
    "audit": "leakscope.audits.run",
    "advise": "leakscope.advice.advise",
    "attack": "leakscope.single_model.attack",
    "compare": "leakscope.compare.compare",
    "study defences": "leakscope.studies.defences.study",
    "study dynamics": "leakscope.studies.dynamics.study",
    "study ensemble": "leakscope.studies.ensemble.study",
    "study leakage": "leakscope.studies.leakage.study",
    "study scaling": "leakscope.studies.scaling.study",
}
"""Kind of run, as in run.json -> its module."""

_WRITTEN = (
    "run.json", "results.json", "parts.json", "recommended.toml", "redaction.key", "report*.html",
    "report.md", "submission_*.csv", "*.parquet", "*.npy", "*.npz", "figures", "banks", "parts", "blocks",
    "validation", "private", "experiments", "accuracy", "complexity", "uncertainty",
)  # fmt: skip


def is_of_a_run(name: str) -> bool:
    """Whether a path in a run folder is one that runs write; others are the user's, such as notes."""
    return any(fnmatchcase(name.partition("/")[0], pattern) for pattern in _WRITTEN)


def kind_module(kind: str) -> Any:
    """The module that knows a kind of run.

    Raises:
        InputError: there is no such kind.
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r}: choose from {', '.join(KINDS)}")
    return importlib.import_module(KINDS[kind])


def read_kind(folder: Path) -> tuple[Any, Any]:
    """The module of the kind that a run folder's run.json names, and the config stored there.

    Raises:
        CorruptBankError: there is no such kind.
    """
    kind, config = read_run(folder)
    if kind not in KINDS:
        raise CorruptBankError(f"{folder}: unknown kind of run {kind!r}")
    return kind_module(kind), config


def schema(kind: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the results.json of one kind of run.

    Raises:
        InputError: there is no such kind.
    """
    return results_schema(kind_module(kind).RESULTS_TYPE, kind)


@named_by_a_run()
def rebuild_report(folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> Path:
    """Writes the pages of a finished run again; returns the path of the first.

    These are the pages that the folder has, or only the one that `disclosure` asks for.
    Nothing is trained. Numbers come from results.json; what the pages draw beside them (curves, planes,
    outputs on single records) comes from the banks.
    """
    module, _ = read_kind(folder)
    tables = as_corrupt_table_error(folder / RECORDS)
    errors = as_corrupt_run_error(folder)
    with errors, tables, confined_to(folder), sealed(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that nobody measured may overflow an axis
        results = read_results(folder, module.RESULTS_TYPE)
        disclosure.check(getattr(results, "is_of_one_model", False))
        pages = pages_to_write(folder, disclosure) if disclosure.redacted is None else (disclosure,)
        for page in pages:
            module.write_reports(folder, results, page)
    return folder / (REDACTED_PAGE if pages[0].redacted else PAGE)
