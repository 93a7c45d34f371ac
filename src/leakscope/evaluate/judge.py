"""From a bank to figures with intervals: every model is the target in turn, attacked with the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.registry import PER_RECORD
from leakscope.bank.bank import Bank
from leakscope.design import on_records
from leakscope.disk.scratch import evict_pages, gather_records, over_blocks
from leakscope.disk.second_process import Job, are_small
from leakscope.dp.verdict import ClaimFigures
from leakscope.evaluate.attack_figures import Groups
from leakscope.evaluate.attacked import Attacked, attacked
from leakscope.evaluate.claim_tests import figures_of_claim
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.every_attack import figures_of_attacks
from leakscope.evaluate.exposure import exposed_records, exposure_flags
from leakscope.evaluate.fit import checkpoint_fits
from leakscope.evaluate.gate import GateResult
from leakscope.evaluate.hygiene.checks import check_all
from leakscope.evaluate.hygiene.members import AttackedModels, models_to_check
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.limits import judge_gate
from leakscope.evaluate.predictions import accuracy_figures, error_figures
from leakscope.evaluate.rating import Rated, rate
from leakscope.evaluate.record_metadata import Column, RecordMetadata, nullable, write_rows
from leakscope.evaluate.results import AttackFigures, AuditResults, ExposedRecords, PopulationFigures
from leakscope.evaluate.text_figures import Population, text_figures
from leakscope.evaluate.uncertainty import SAMPLED_SCORES, Sample
from leakscope.leakage.bits import MEASURES, RecordBits
from leakscope.leakage.checkpoints import LEAKAGE_SIGNALS, BankLeakage, bank_leakage
from leakscope.privacy.settings import PrivacySpent
from leakscope.stats.groups import Grouping
from leakscope.stats.per_record import RecordRisk, RiskTable, decision_counts, risk_of_counts
from leakscope.types import Design, Scores, Signals

RECORDS = "records.parquet"
ROWS = "rows.parquet"
_MOST_GROUPS = 50
_CHECKED_RECORDS = 200_000


@dataclass(frozen=True, eq=False)
class Judged:
    """The results of an audit, and what they were computed from.

    Attributes:
        results: the content of results.json, with NaN where a figure is undefined.
        attacked: signals, design and scores; without canaries.
        risk: each record's exposure over the targets; None where single records cannot be evaluated.
        leakage: bits of each record at the last checkpoint; None where the results say why.
    """

    results: AuditResults
    attacked: Attacked
    risk: RecordRisk | None
    leakage: RecordBits | None


def judge(
    bank: Bank,
    config: EvaluationConfig,
    metadata: RecordMetadata | None = None,
    sampled_scores: int = SAMPLED_SCORES,
) -> Judged:
    """Every number of an audit.

    Signals and scores are processed in blocks of records; what stays in memory are a few vectors with one
    number per record (docs/scale.md lists them).

    Canaries are attacked together with the other records, and have figures of their own; no other figure
    counts them.

    Args:
        bank: a complete bank.
        config: what to measure, and on which models.
        metadata: what is known of the records; None: no groups are evaluated and nothing is checked.
        sampled_scores: attacks are repeated without some models on at most so many scores; a timed trial
            has fewer than an audit.
    """
    everyone = attacked(bank, config)
    canaries = np.empty(0, np.int64) if metadata is None else metadata.canaries
    candidates = None if metadata is None else metadata.secret_candidates
    metadata = None if metadata is None else metadata.without_canaries()
    evidence = everyone.without(canaries)
    signals, design, targets = evidence.signals, evidence.design, evidence.targets
    bits = _begun_bits(*_models_of_bits(evidence, config))
    groups, groups_left_out = _evaluated_groups(metadata, design.units, config)
    risk = _risk(evidence.scores, evidence.memberships.rows(targets))
    decision = f"the log ratio of {PER_RECORD.label} is above 0; the other models are the references"
    exposed = None if risk is None else exposed_records(risk, decision, config.noun)
    hygiene = () if metadata is None else _hygiene(evidence, metadata, config)
    sample = Sample.of(signals, design, targets, sampled_scores=sampled_scores)
    attacks, headline = figures_of_attacks(
        everyone, evidence, everyone.units_of(canaries), config, groups, sampled_scores
    )
    leakage = bits()
    population = _population(bank, evidence, len(canaries))
    gate = _gate_result(config, attacks, exposed, hygiene, population)
    own_leakage = leakage.figures if config.targets is None else None  # not that of the references
    results = AuditResults(
        experiment="audit",
        config=config,
        rating=rate(Rated(headline, attacks, population, own_leakage, exposed, gate, hygiene, config.noun)),
        population=population,
        accuracy=accuracy_figures(signals, design, sample),
        error=error_figures(signals, design, sample),
        fit=checkpoint_fits(signals, design, targets),
        headline=headline,
        attacks=attacks,
        groups_left_out=groups_left_out,
        leakage=leakage.figures,
        hygiene=hygiene,
        exposed=exposed,
        gate=gate,
        claim=_claim_figures(bank, config, hygiene, canaries),
        text=text_figures(Population.of(evidence), Population.of(everyone), candidates),
    )
    return Judged(results, evidence.inverted(results.inverted_attacks), risk, leakage.last)


def _gate_result(
    config: EvaluationConfig,
    attacks: Mapping[str, AttackFigures],
    exposed: ExposedRecords | None,
    hygiene: Sequence[Outcome],
    population: PopulationFigures,
) -> GateResult | None:
    if config.gate is None:
        return None
    n_nonmembers = population.records - population.members
    n_references = config.n_references(population.models)
    return judge_gate(config.gate, attacks, exposed, hygiene, n_nonmembers, config.noun, n_references)


def _claim_figures(
    bank: Bank, config: EvaluationConfig, hygiene: Sequence[Outcome], canaries: IntArray
) -> ClaimFigures | None:
    """None also where a check failed: what refutes a claim may be a fault of the audit."""
    if config.claim is None or any(check.status == "failed" for check in hygiene):
        return None
    return figures_of_claim(bank, config.claim, config.targets, canaries)


def write_record_table(folder: Path, metadata: RecordMetadata, judged: Judged) -> None:
    """records.parquet: ids, labels, groups, each record's risk and bits; for one target, also its scores.

    Where members are units, it has one row for each unit, and rows.parquet has one for each record.
    """
    units, config = judged.attacked.design.units, judged.results.config
    if units is not None:
        _write_rows_of_units(folder, metadata, judged)
    own = metadata.of_units(units, config.unit)
    flags = None if judged.risk is None else exposure_flags(judged.risk)
    of_one_target = {
        label: scores for label, scores in judged.attacked.scores.items() if len(scores.targets) == 1
    }

    def rows(records: slice) -> dict[str, Column]:
        optional = {"id": own.names, "label": own.labels, **own.groups, "records": own.sizes}
        texts: dict[str, AnyArray] = {k: values for k, values in optional.items() if values is not None}
        columns: dict[str, Column] = {name: np.array(values[records]) for name, values in texts.items()}
        evict_pages(*texts.values())
        if judged.risk is not None and flags is not None:
            columns |= {name: judged.risk.column(name, records) for name in RiskTable._fields}
            columns["exposed"] = nullable(flags.exposed[records], flags.resolved[records])
        if judged.leakage is not None:
            columns |= {name: getattr(judged.leakage, name)[records] for name in MEASURES}
        for label, scores in of_one_target.items():
            columns["is_member"] = judged.attacked.memberships.in_mask[scores.targets[0], records]
            columns[f"score_{label}"] = scores.values[0, records]
        return columns

    write_rows(folder / RECORDS, len(own.names), rows)


def _write_rows_of_units(folder: Path, metadata: RecordMetadata, judged: Judged) -> None:
    """rows.parquet: each record with its unit, and what it gives away about the unit on its own."""
    evidence, unit = judged.attacked, judged.results.config.unit
    alone = replace(evidence.design, units=None)  # every record by itself
    risk = None
    if judged.risk is not None:
        scores = PER_RECORD(evidence.signals, alone, evidence.targets, evidence.bank.scratch)
        risk = _risk({PER_RECORD.label: scores}, alone.rows(evidence.targets))

    def rows(records: slice) -> dict[str, Column]:
        texts = {"id": metadata.ids, "label": metadata.labels, **metadata.groups}
        columns: dict[str, Column] = {name: np.array(values[records]) for name, values in texts.items()}
        if risk is not None:
            columns |= {name: risk.column(name, records) for name in RiskTable._fields}
        return columns

    assert unit is not None, "a design of units has a column that names them"
    write_rows(folder / ROWS, len(metadata.ids), rows)


def _hygiene(evidence: Attacked, metadata: RecordMetadata, config: EvaluationConfig) -> tuple[Outcome, ...]:
    to_compare = _attacked_to_compare(evidence)
    signals, design, targets = evidence.signals, evidence.design, evidence.targets
    return check_all(signals, design, targets, metadata, to_compare, config.noun, config.source.kind)


def _attacked_to_compare(evidence: Attacked) -> AttackedModels | None:
    """The targets and other models, attacked with all others; None where there are too few models.

    Where records are many, a sample of them: the mean over the sample is precise enough.
    """
    signals, design = evidence.signals, evidence.design
    per_record = evidence.scores.get(PER_RECORD.label)
    if per_record is not None and len(per_record.targets) == design.n_models:
        return AttackedModels(per_record.targets, per_record.values, design.of_units.in_mask)
    needs = PER_RECORD.reads_from(signals)
    if design.n_models < 2 or any(name not in signals.arrays for name in needs):
        return None
    if design.n_records > _CHECKED_RECORDS:
        sample = _drawn_records(design)
        arrays = {name: gather_records(signals.last(name), sample, 1)[:, None] for name in needs}
        labels = signals.labels if signals.labels.ndim == 1 else signals.labels[0]
        signals = Signals(arrays, (1,), labels[sample])
        design = on_records(design, sample)
    has_in_references = sum(bool(design.in_mask[model].any()) for model in range(design.n_models)) > 1
    # Record types fitted on a few thousand records are good enough for a mean over all of them.
    attack = EbLira(fitted_records=2_000, online=has_in_references)
    models = models_to_check(evidence.targets, design.n_models)
    return AttackedModels(models, attack(signals, design, models).values, design.of_units.in_mask[models])


def _drawn_records(design: Design) -> IntArray:
    """A random sample of the records, with all records of a unit or none, ascending."""
    n_units = design.of_units.n_records
    n_drawn = max(1, _CHECKED_RECORDS * n_units // design.n_records)
    drawn = np.sort(np.random.default_rng(0).choice(n_units, n_drawn, replace=False))
    return drawn if design.units is None else np.flatnonzero(np.isin(design.units, drawn))


def _begun_bits(signals: Signals, design: Design) -> Callable[[], BankLeakage]:
    """What returns the bits; a second process computes them meanwhile, where arrays are small.

    Of large arrays they are computed first: pages of attacks would stay in memory beside them.
    """
    if are_small(*signals.arrays.values()):
        return Job(bank_leakage, signals, design).result_now
    leakage = bank_leakage(signals, design)
    return lambda: leakage


def _models_of_bits(evidence: Attacked, config: EvaluationConfig) -> tuple[Signals, Design]:
    """The models whose outputs give the bits of a record: all, or the references of a given target.

    With the target among them, a record's bits would depend on whether it is a member, which is secret.
    """
    signals, design = evidence.means_of_units(LEAKAGE_SIGNALS), evidence.memberships
    if config.targets is None or design.columns is not None:
        return signals, design
    n_targets = len(evidence.targets)
    is_first = (evidence.targets == np.arange(n_targets)).all()
    others = np.setdiff1d(np.arange(design.n_models), evidence.targets)
    rows = slice(n_targets, None) if is_first else others  # a slice makes no copy
    outputs = {name: values[rows] for name, values in signals.arrays.items()}
    return Signals(outputs, signals.epochs, signals.labels), Design(design.in_mask[rows])


def _risk(scores: Mapping[str, Scores], in_mask: BoolArray) -> RecordRisk | None:
    per_record = scores.get(PER_RECORD.label)
    if per_record is None or len(in_mask) < 2:
        return None
    values, n_records = per_record.values, in_mask.shape[1]
    counts = np.empty((4, n_records), dtype=np.int32)

    def fill(columns: slice) -> None:
        counts[:, columns] = decision_counts(values[:, columns] > 0, in_mask[:, columns])

    over_blocks(n_records, fill, values, in_mask)
    return risk_of_counts(counts)


def _evaluated_groups(
    metadata: RecordMetadata | None, units: IntArray | None, config: EvaluationConfig
) -> tuple[Groups, dict[str, str]]:
    """The columns to evaluate group by group, classes included, and why others are left out."""
    if metadata is None:
        return {}, {}
    own = metadata.of_units(units, config.unit)
    columns: dict[str, npt.NDArray[np.str_]] = dict(own.groups)
    if own.labels is not None and own.labels.dtype.kind == "U" and len(np.unique(own.labels)) > 1:
        columns.setdefault("label", own.labels)
    groupings = {name: Grouping.of(values) for name, values in columns.items()}
    left_out = dict(own.varying)
    if own.labels is None and metadata.labels.dtype.kind == "U":
        left_out.setdefault("label", f"it varies within {config.noun.many}")
    left_out |= {
        name: f"{len(grouping.names):,} groups; at most {_MOST_GROUPS} are evaluated"
        for name, grouping in groupings.items()
        if len(grouping.names) > _MOST_GROUPS
    }
    return {name: grouping for name, grouping in groupings.items() if name not in left_out}, left_out


def _population(bank: Bank, evidence: Attacked, n_canaries: int) -> PopulationFigures:
    design, targets = evidence.memberships, evidence.targets
    return PopulationFigures(
        models=design.n_models,
        targets=len(targets),
        records=design.n_records,
        rows=None if evidence.design.units is None else evidence.design.n_records,
        canaries=n_canaries,
        members=int(design.rows(targets).sum(axis=1).mean().round()),
        diverged_models={str(model): epoch for model, epoch in bank.diverged.items()},
        seed=bank.identity.seed,
        recipe=bank.identity.recipe,
        privacy=PrivacySpent.of_recipe(bank.identity.recipe),
        records_sha256=bank.identity.records.sha256,
    )
