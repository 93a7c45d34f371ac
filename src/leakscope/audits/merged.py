"""Runs to merge: audits of the same records and recipe with other seeds are one larger audit.

Its bank is the parts' banks as one (`bank/merge.py`), what it knows about the records is what the first part
knows, and its verdict is made from all models together: every model is a target, and all others judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from leakscope.attacks.base import Attack
from leakscope.attacks.spec import resolve_all
from leakscope.audits.run import KIND, run_audit
from leakscope.audits.settings import JUDGING, AuditSettings, ResolvedSettings
from leakscope.audits.source import Evidence, PreparedAudit, Progress, check_claimed, refuse_claim
from leakscope.bank.bank import Bank
from leakscope.bank.merge import Merge, check_free, plan_merge, write_merge
from leakscope.bank.results import read_results
from leakscope.bank.run_folder import RESULTS, RUN, locked_run_folder, read_run
from leakscope.disclosure import inherited, stay_redacted
from leakscope.errors import InputError
from leakscope.evaluate.config import EvaluationConfig, Source
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.verdict import Verdict
from leakscope.privacy.claim import Claim
from leakscope.report.previews import joined_previews
from leakscope.signals.registry import Task, task_of
from leakscope.user_code import named_by_a_run


@dataclass(frozen=True, eq=False)
class MergedRuns:
    """Run folders of audits, to be judged as one.

    Attributes:
        folders: at least two.
    """

    folders: Sequence[Path | str]

    uses: ClassVar[frozenset[str]] = JUDGING

    @cached_property
    def configs(self) -> dict[Path, EvaluationConfig]:
        """What each of the audits that have results measured."""
        folders = [Path(folder) for folder in self.folders]
        configs = {folder: _config_of(folder) for folder in folders if (folder / RESULTS).exists()}
        if not configs:
            raise InputError(f"none of {', '.join(map(str, folders))} has results; run the audits first")
        return configs

    @property
    def task(self) -> Task:
        """Of the models of the first run that has results."""
        signals = Bank.open(next(iter(self.configs))).signals()
        return task_of(signals.labels, signals.arrays)

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """Every attack of one of the audits."""
        with named_by_a_run():
            return resolve_all(attack for config in self.configs.values() for attack in config.attacks)

    @property
    def default_fpr_budgets(self) -> tuple[float, ...]:
        """Every false positive rate of one of the audits."""
        return tuple(dict.fromkeys(fpr for config in self.configs.values() for fpr in config.fpr_budgets))

    def prepare(self, settings: ResolvedSettings) -> PreparedAudit:
        """Checks that the parts fit together and that their gates agree."""
        merge = plan_merge([Path(folder) for folder in self.folders])
        folder, first = next(iter(self.configs.items()))
        facts = {"parts": f"{len(self.folders)} audits of the same records and recipe with different seeds"}
        gate = settings.gate or self._common("gate")
        claim = settings.claim or self._common("claim")
        config = replace(
            first,
            attacks=settings.attack_specs,
            fpr_budgets=settings.fpr_budgets,
            gate=gate,
            claim=claim,
            source=first.source if merge.is_of_copies else Source("merged", facts),
        )
        if gate is not None:
            config = replace(config, delta=gate.delta, confidence=gate.confidence)
        if claim is not None:
            refuse_claim(config)
            for part, measured in self.configs.items():
                check_claimed(measured, Bank.open(part).design())
        metadata = RecordMetadata.read(folder)

        def collect(out: Path, _progress: Progress) -> Evidence:
            bank = write_merge(merge, out)
            previews = joined_previews(tuple(self.configs))
            if previews is not None:
                previews.write(out)
            return Evidence(bank, metadata, config)

        return PreparedAudit(config, merge.design.of_units.in_mask, merge.design.n_models, collect)

    def _common(self, name: Literal["gate", "claim"]) -> Any:
        """The gate or the claim of every part; None where none has one."""
        (first, common), *others = (
            (folder, getattr(config, name)) for folder, config in self.configs.items()
        )
        for folder, other in others:
            if other != common:
                raise InputError(
                    f"{folder} has another {name} than {first} ({_settings_text(name, other)}, but "
                    f"{_settings_text(name, common)} there); rerun one with the [{name}] of the other, which "
                    "trains nothing"
                )
        return common


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


def merge_runs(
    parts: Sequence[Path | str], out: Path | str, settings: AuditSettings | None = None
) -> MergedRun:
    """Merges audits or banks into `out`; audits are judged at once, all models together.

    Args:
        parts: run folders of audits, or folders of banks; at least two.
        out: folder of the merged run; an interrupted merge resumes, another run's folder is refused.
        settings: attacks, false positive rates and gate; by default those of the parts. Where a part is
            redacted, so is the merged run.

    Raises:
        InputError: the parts do not fit together.
        CorruptBankError: a part is damaged; the message names it.
    """
    folders, folder = [Path(part) for part in parts], Path(out)
    merge = plan_merge(folders)
    are_audits = _are_audits(folders)
    check_free(folder, merge)
    if not are_audits and (folder / RUN).exists():
        raise InputError(f"{folder} holds a run, the parts are banks; choose another folder with --out")
    settings = settings or AuditSettings()
    settings = replace(settings, disclosure=inherited(settings.disclosure, folders))
    if are_audits and not merge.missing and _have_results(folders, merge):
        verdict = run_audit(settings, MergedRuns(folders), folder)
        return MergedRun(merge, Bank.open(folder), are_audits, verdict)
    with locked_run_folder(folder, KIND, {}) if are_audits else nullcontext():
        if are_audits:
            stay_redacted(folder, settings.disclosure)  # for the audit that completes it
        return MergedRun(merge, write_merge(merge, folder), are_audits, None)


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


def _have_results(folders: Sequence[Path], merge: Merge) -> bool:
    """Whether the parts say what to ask: every one, or any one where they are copies of one bank."""
    without = [folder for folder in folders if not (folder / RESULTS).exists()]
    if without and not merge.is_of_copies:
        raise InputError(f"{without[0] / RESULTS} is missing; run the same audit again to write it")
    return len(without) < len(folders)


def _settings_text(name: str, given: Gate | Claim | None) -> str:
    if given is None:
        return f"no {name}"
    return ", ".join(
        f"{f.name}={getattr(given, f.name)}" for f in fields(given) if getattr(given, f.name) != f.default
    )


def _config_of(folder: Path) -> EvaluationConfig:
    config = read_results(folder, AuditResults).config
    if config.targets:
        raise InputError(f"{folder} is an audit of one given model; merge audits of whole populations")
    return config
