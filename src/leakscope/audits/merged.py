"""Run folders merged into one, and judged at once where they are audits.

Audits of the same records, recipe and questions with other seeds are one larger audit that was trained in
parts. Its bank is the parts' banks as one (`bank/merge.py`), what it remembers of the records is what the
first part remembers, and its verdict is made from all models together: every one is a target, and all
others judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from leakscope.audits.population import KIND, concluded
from leakscope.bank.bank import Bank
from leakscope.bank.identity import differences
from leakscope.bank.merge import Merge, check_free, plan_merge, write_merge
from leakscope.bank.results import read_results
from leakscope.bank.run_folder import RESULTS, RUN, locked_run_folder, read_run, to_jsonable
from leakscope.errors import InputError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults, EvaluationConfig, Source
from leakscope.evaluate.verdict import Verdict
from leakscope.report.previews import joined_previews


class MergedRun(NamedTuple):
    """What merging made.

    Attributes:
        merge: which parts, and how they fit.
        bank: the merged bank; unfinished where copies of one bank lack blocks.
        are_audits: whether the parts were audits' run folders, rather than banks alone.
        verdict: of the merged audit; None where there is nothing to judge by, or models are missing.
    """

    merge: Merge
    bank: Bank
    are_audits: bool
    verdict: Verdict | None


def merge_runs(parts: Sequence[Path | str], out: Path | str) -> MergedRun:
    """Merges audits or banks into `out`; audits are judged by the questions they have in common.

    Args:
        parts: run folders of audits, or folders of banks; at least two.
        out: folder of the merged run; an interrupted merge in it goes on, another run's is refused.

    Raises:
        InputError: the parts do not fit together, or were asked different questions.
        CorruptBankError: a part is damaged; the message names it.
    """
    folders, folder = [Path(part) for part in parts], Path(out)
    merge = plan_merge(folders)
    are_audits = _are_audits(folders)
    judged = [part for part in folders if (part / RESULTS).exists() or not merge.is_of_copies]
    config = _common_config(judged, merge.is_of_copies) if are_audits and judged else None
    facts = RecordMetadata.read(judged[0]) if config else None
    check_free(folder, merge)
    if not are_audits and (folder / RUN).exists():
        raise InputError(f"{folder} holds a run, the parts are banks; choose another folder with --out")
    with (
        locked_run_folder(folder, KIND, {}) if are_audits else nullcontext()
    ):  # a bank alone is locked while written
        bank = write_merge(merge, folder)
        if config is None or facts is None or not bank.is_complete:
            return MergedRun(merge, bank, are_audits, None)
        previews = joined_previews(judged)
        if previews is not None:
            previews.write(folder)
        return MergedRun(merge, bank, are_audits, concluded(bank, config, facts, folder))


def _are_audits(folders: Sequence[Path]) -> bool:
    """True for run folders of audits, false for banks; raises for anything else, or some of each."""
    kinds = {folder: read_run(folder)[0] if (folder / RUN).exists() else None for folder in folders}
    for folder, kind in kinds.items():
        if kind not in (KIND, None):
            raise InputError(f"{folder} is a run of kind {kind!r}; merge audits, or folders of banks")
    if len(set(kinds.values())) > 1:
        audits = [str(folder) for folder, kind in kinds.items() if kind]
        banks = [str(folder) for folder, kind in kinds.items() if not kind]
        raise InputError(f"{audits[0]} is an audit and {banks[0]} a bank alone; merge audits, or banks")
    return kinds[folders[0]] == KIND


def _common_config(folders: Sequence[Path], are_copies: bool) -> EvaluationConfig:
    """What all of these audits measure: attacks, FPR budgets, gate."""
    merged, first = Source("merged"), folders[0]
    configs = {folder: _evaluation_config(folder) for folder in folders}
    wanted = replace(configs[first], source=merged)
    for folder, config in configs.items():
        differing = differences(to_jsonable(wanted), to_jsonable(replace(config, source=merged)), here="here")
        if differing:
            raise InputError(
                f"{folder} was asked other questions than {first} ({'; '.join(differing[:4])}); "
                "give both audits the same [attacks] and [gate] and run them again, which trains nothing"
            )
    return configs[first] if are_copies else wanted


def _evaluation_config(folder: Path) -> EvaluationConfig:
    if not (folder / RESULTS).exists():
        raise InputError(f"{folder / RESULTS} is missing; run the same audit again to write it")
    results = read_results(folder, AuditResults)
    if results.is_of_one_model:
        raise InputError(f"{folder} is an audit of one given model; merge audits of whole populations")
    return results.config
