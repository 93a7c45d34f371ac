"""The audits to compare: open them, check that they are comparable, find what they have in common.

Audits are comparable when they have the same records and the same number of models: attacks grow stronger
with more reference models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakscope.array_types import IntArray
from leakscope.attacks.registry import PER_RECORD
from leakscope.attacks.spec import resolve_all
from leakscope.audits.run import KIND as AUDIT
from leakscope.bank.bank import IDENTITY, Bank
from leakscope.bank.results import read_results
from leakscope.bank.run_folder import RESULTS, read_run
from leakscope.compare.results import LeftOut, RunSummary
from leakscope.compare.spec import ComparisonSpec, Groups
from leakscope.design import units_among
from leakscope.disk.storage import sha256_of
from leakscope.errors import InputError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AttackFigures, AuditResults
from leakscope.stats.estimate import TwoEstimates

_SHOWN_HASH = 12


@dataclass(frozen=True, eq=False)
class FinishedAudit:
    """An audit on disk.

    Attributes:
        name: unique among the audits compared.
        folder: its run folder.
        results: its results.
        bank: the outputs of its models.
        groups: the groups of its records, without canaries.
        canaries: int64, the canaries among its records; a comparison does not count them.
    """

    name: str
    folder: Path
    results: AuditResults
    bank: Bank
    groups: Groups
    canaries: IntArray

    @property
    def design_sha256(self) -> str:
        """Equal for audits whose models have the same training sets."""
        return str(self.bank.identity.design.sha256)

    @property
    def columns(self) -> set[str]:
        """Columns whose groups were evaluated."""
        return {column for figures in self.results.attacks.values() for column in figures.groups}

    @property
    def measurable_fprs(self) -> set[float]:
        """The FPR budgets within which a TPR could be measured, for every attack."""
        return set.intersection(
            *(
                {point.fpr for point in figures.tpr_at_fpr if point.reason is None}
                for figures in self.results.attacks.values()
            )
        )

    @property
    def bits(self) -> TwoEstimates | None:
        """Mean bits at the last checkpoint; None without an interval, or for an audit of one given model.

        The bits of one given model would mostly be those of its reference models.
        """
        checkpoints = self.results.leakage.checkpoints
        if self.results.is_of_one_model or not checkpoints or checkpoints[-1].bits.these_low is None:
            return None
        return checkpoints[-1].bits


def open_audits(folders: list[Path]) -> list[FinishedAudit]:
    """The audits in these folders, the baseline first.

    Raises:
        InputError: a folder holds no finished audit, or one that is not comparable with the first.
    """
    if len(folders) < 2:
        raise InputError(f"runs={[str(f) for f in folders]}: give at least two run folders, baseline first")
    for folder in folders:
        kind, _ = read_run(folder)
        if kind != AUDIT:
            raise InputError(f"{folder} is a run of kind {kind!r}; compare takes audits")
        if not (folder / RESULTS).exists():
            raise InputError(f"{folder / RESULTS} is missing; run the same audit again to write it")
    audits = list(map(_open_audit, _names(folders), folders))
    for audit in audits[1:]:
        _check_comparable(audits[0], audit)
    return audits


def _open_audit(name: str, folder: Path) -> FinishedAudit:
    results, metadata = read_results(folder, AuditResults), RecordMetadata.read(folder)
    bank, canaries = Bank.open(folder), metadata.canaries
    own = np.setdiff1d(np.arange(len(metadata.ids)), canaries)
    units = units_among(bank.design().units, own)
    population = metadata.without_canaries().of_units(units, results.config.unit)
    groups = dict(population.groups)
    if population.labels is not None:
        groups.setdefault("label", population.labels)
    return FinishedAudit(name, folder, results, bank, groups, canaries)


def signs_in(audit: FinishedAudit, audits: Sequence[FinishedAudit]) -> Mapping[str, int]:
    """Label of each attack -> -1 where members have the lower scores, else 1.

    An audit turns the scores of an attack around where it is sure that members have the lower ones. Of two
    alike runs, one can be just sure and the other not: turned in one alone, an AUC of 0.47 would be compared
    with one of 0.53. So where any audit is sure, the others take the side of 0.5 that their AUC is on.
    """
    turned = {label for other in audits for label in other.results.inverted_attacks}

    def is_lower(label: str, figures: AttackFigures) -> bool:
        auc = figures.auc.value
        return figures.inverted or (label in turned and auc is not None and auc < 0.5)

    return {label: -1 if is_lower(label, own) else 1 for label, own in audit.results.attacks.items()}


def common_spec(audits: list[FinishedAudit]) -> ComparisonSpec:
    """What every audit can provide.

    Raises:
        InputError: the audits share no attack.
    """
    results = [audit.results for audit in audits]
    shared = [spec for spec in results[0].config.attacks if all(spec in r.config.attacks for r in results)]
    if not shared:
        listed = "; ".join(f"{audit.name}: {', '.join(audit.results.config.attacks)}" for audit in audits)
        raise InputError(f"the runs share no attack ({listed}); run the audits again with the same attacks")
    attacks = resolve_all(shared)

    def mean_auc(label: str) -> float:
        """Over the runs, so that the choice of the strongest attack favors none of them."""
        return float(np.mean([r.attacks[label].auc.value or 0.0 for r in results]))

    return ComparisonSpec(
        attacks=attacks,
        fpr_budgets=tuple(sorted(set.intersection(*(a.measurable_fprs for a in audits)), reverse=True)),
        strongest_attack=max((attack.label for attack in attacks), key=mean_auc),
        columns=_common_columns(audits),
        record_attack=PER_RECORD if all(r.exposed is not None for r in results) else None,
        with_accuracy=all(r.accuracy is not None for r in results),
        with_bits=all(audit.bits is not None for audit in audits),
    )


def _common_columns(audits: list[FinishedAudit]) -> tuple[str, ...]:
    """Columns that every audit evaluated, with the same group for each record."""
    shared = set.intersection(*(audit.columns for audit in audits))
    first = audits[0].groups
    return tuple(c for c in sorted(shared) if all(np.array_equal(a.groups[c], first[c]) for a in audits))


def run_summary(audit: FinishedAudit) -> RunSummary:
    """What results.json says about an audit."""
    results, population = audit.results, audit.results.population
    return RunSummary(
        name=audit.name,
        records=population.records,
        unit=results.config.unit,
        records_name=results.config.records,
        records_sha256=population.records_sha256,
        models=population.models,
        targets=population.targets,
        diverged_models=len(population.diverged_models),
        seed=population.seed,
        recipe=population.recipe,
        bank_sha256=sha256_of(audit.folder / IDENTITY),
        hygiene_failed=tuple(check.sentence for check in results.hygiene if check.status == "failed"),
    )


def left_out(audits: list[FinishedAudit], spec: ComparisonSpec) -> LeftOut:
    """What some audits have and others lack."""
    configs = [audit.results.config for audit in audits]
    shared = set.intersection(*(set(config.attacks) for config in configs))
    attacks = {attack for config in configs for attack in config.attacks} - shared
    budgets = {budget for config in configs for budget in config.fpr_budgets} - set(spec.fpr_budgets)
    columns = {column for audit in audits for column in audit.columns} - set(spec.columns)
    has_records = spec.record_attack is not None or audits[0].results.is_of_one_model
    return LeftOut(
        attacks=tuple(sorted(attacks)),
        fpr_budgets=tuple(sorted(budgets)),
        groups=tuple(sorted(columns)),
        parts=() if has_records else (f"records ({PER_RECORD.label})",),
    )


def _names(folders: list[Path]) -> list[str]:
    """Names of the folders; their paths where two have the same name."""
    resolved = [folder.resolve() for folder in folders]  # a link to a run is the same run
    if len(set(resolved)) < len(resolved):
        raise InputError(f"runs={[str(folder) for folder in folders]}: the same run is given twice")
    names = [folder.name for folder in resolved]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def _check_comparable(baseline: FinishedAudit, other: FinishedAudit) -> None:
    facts = zip(_comparable_facts(baseline), _comparable_facts(other), strict=True)
    problems = [f"it {own}, the first run {first}" for first, own in facts if first != own]
    if problems:
        raise InputError(
            f"{other.folder} cannot be compared with {baseline.folder}: {'; '.join(problems)}; "
            "audit the same records with the same number of models"
        )


def _comparable_facts(audit: FinishedAudit) -> tuple[str, ...]:
    """What must be equal. Models that diverged count, as their number differs by chance."""
    population = audit.results.population
    unit = audit.results.config.unit
    return (
        f"has {population.records:,} {audit.results.config.noun.many}",
        "counts records" if unit is None else f"counts the units of column {unit!r}",
        f"has records with sha256 {population.records_sha256[:_SHOWN_HASH]}",
        f"has {audit.bank.identity.design.models:,} models",
        f"is of {'one given model' if audit.results.is_of_one_model else 'a population of models'}",
    )
