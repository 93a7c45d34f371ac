"""From a bank to figures with intervals: every model a target in turn, judged by the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.registry import PER_RECORD
from leakscope.attacks.spec import resolve
from leakscope.bank.bank import Bank
from leakscope.disk.scratch import Scratch, evict_pages, gather_records, over_blocks
from leakscope.evaluate.attack_figures import Groups, Questions, attack_figures, spread_figure
from leakscope.evaluate.gate import DEFAULT_CONFIDENCE, DEFAULT_DELTA, Gate
from leakscope.evaluate.hygiene.checks import check_all
from leakscope.evaluate.hygiene.members import EveryModel
from leakscope.evaluate.limits import judge_gate
from leakscope.evaluate.record_metadata import RecordMetadata, write_rows
from leakscope.leakage.bits import MEASURES, RecordBits
from leakscope.leakage.checkpoints import bank_leakage
from leakscope.stats.groups import Grouping
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.per_record import RecordRisk, RiskTable, decision_counts, risk_of_counts
from leakscope.stats.rates import rates_by_model
from leakscope.types import Design, Scores, Signals

RECORDS = "records.parquet"
_FALSE_DISCOVERY_RATE = 0.05
_MOST_GROUPS = 50
_CHECKED_RECORDS = 200_000


class Attacked(NamedTuple):
    """A bank under attack; models that diverged are left out.

    Attributes:
        signals: the models' answers.
        design: who was in which training set.
        targets: int64 (targets,), the models attacked.
        scores: attack -> its scores.
    """

    signals: Signals
    design: Design
    targets: IntArray
    scores: Mapping[str, Scores]


@dataclass(frozen=True, eq=False)
class Judged:
    """The numbers of an audit, and the scores and decisions they were made from.

    Attributes:
        results: the content of results.json, before NaN becomes null.
        design: of the models that did not diverge.
        scores: attack -> its scores.
        risk: each record's exposure over the targets; None where single records cannot be judged.
        leakage: bits each record's answers carry at the last checkpoint; None where results say why.
    """

    results: dict[str, Any]
    design: Design
    scores: Mapping[str, Scores]
    risk: RecordRisk | None
    leakage: RecordBits | None


def judge(bank: Bank, config: dict[str, Any], facts: RecordMetadata | None = None) -> Judged:
    """Every number of an audit. Models that diverged are left out and named.

    Answers and scores are walked over block by block; what stays in memory are a few vectors of one number a
    record (docs/scale.md lists them).

    Args:
        bank: the models' answers.
        config: `attacks`, `fpr_budgets`, and optionally `targets` (model indices, all by default),
            `epsilon` (delta and confidence) and `gate`.
        facts: what is known of the records; None: groups are not judged.
    """
    signals, design, targets, scores = attacked(bank, config)
    questions = _questions(config)
    groups, left_out = _judged_groups(facts)
    in_mask, scratch = design.rows(targets), bank.scratch
    risk = _risk(scores, in_mask)
    leakage = bank_leakage(signals, design)
    results: dict[str, Any] = {
        "experiment": "audit",
        "config": config,
        "population": _population(bank, design, targets),
        "accuracy": _accuracy(signals, design, targets),
        "attacks": {
            name: attack_figures(scores[name].values, in_mask, questions, groups, scratch)
            for name in config["attacks"]
        },
        "groups_left_out": left_out,
        "leakage": leakage.figures,
    }
    if facts is not None:
        every_model = _every_model_attacked(scores, signals, design)
        checks = check_all(signals, design, targets, facts, every_model)
        results["hygiene"] = [asdict(found) for found in checks]
    if risk is not None:
        results["exposed"] = _exposed(risk)
    if config.get("gate"):
        results["gate"] = judge_gate(Gate.from_dict(config["gate"]), results)
    return Judged(results, design, scores, risk, leakage.last)


def attacked(bank: Bank, config: dict[str, Any]) -> Attacked:
    """The scores that everything else is made from; arguments as in `judge`."""
    signals, design = converged_models(bank)
    given = config.get("targets")
    targets = np.arange(design.n_models) if given is None else np.asarray(given, dtype=np.int64)
    scores = _scores(config["attacks"], signals, design, targets, bank.scratch)
    return Attacked(signals, design, targets, scores)


def judge_bank(bank: Bank, config: dict[str, Any]) -> dict[str, Any]:
    """The results alone."""
    return judge(bank, config).results


def converged_models(bank: Bank) -> tuple[Signals, Design]:
    """Signals and design of the models that did not diverge."""
    design = bank.design()
    if not bank.diverged:
        return bank.signals(), design
    alive = np.setdiff1d(np.arange(design.n_models), list(bank.diverged))
    return bank.signals().take(alive), design.take(alive)


def write_record_table(folder: Path, facts: RecordMetadata, judged: Judged) -> None:
    """records.parquet: ids, labels, groups, each record's risk and bits; of a single target, its scores."""
    exposed = None if judged.risk is None else judged.risk.exposed(_FALSE_DISCOVERY_RATE)
    alone = {name: scores for name, scores in judged.scores.items() if len(scores.targets) == 1}

    def rows(records: slice) -> dict[str, AnyArray]:
        texts = {"id": facts.ids, "label": facts.labels, **facts.groups}
        columns: dict[str, AnyArray] = {name: np.array(values[records]) for name, values in texts.items()}
        evict_pages(*texts.values())
        if judged.risk is not None and exposed is not None:
            columns |= {name: judged.risk.column(name, records) for name in RiskTable._fields}
            columns["exposed"] = exposed[records]
        if judged.leakage is not None:
            columns |= {name: getattr(judged.leakage, name)[records] for name in MEASURES}
        for name, scores in alone.items():
            columns["is_member"] = judged.design.in_mask[scores.targets[0], records]
            columns[f"score_{name}"] = scores.values[0, records]
        return columns

    write_rows(folder / RECORDS, len(facts.ids), rows)


def _scores(
    names: list[str], signals: Signals, design: Design, targets: IntArray, scratch: Scratch
) -> dict[str, Scores]:
    """Scores of the attacks asked for and, where several targets allow it, of the per-record one."""
    wanted = list(names)
    needed = PER_RECORD.needs
    if len(targets) > 1 and all(signal in signals.arrays for signal in needed):
        wanted.append(PER_RECORD.label)
    return {name: resolve(name)(signals, design, targets, scratch) for name in dict.fromkeys(wanted)}


def _every_model_attacked(
    scores: Mapping[str, Scores], signals: Signals, design: Design
) -> EveryModel | None:
    """Every model attacked by the others, also those that are no targets; None where there are too few.

    About some of the records where they are many: the mean over so many is known well enough.
    """
    found = scores.get(PER_RECORD.label)
    if found is not None and len(found.targets) == design.n_models:
        return EveryModel(found.values, design.in_mask)
    if design.n_models < 2 or any(name not in signals.arrays for name in EbLira.needs):
        return None
    if design.n_records > _CHECKED_RECORDS:
        drawn = np.random.default_rng(0).choice(design.n_records, _CHECKED_RECORDS, replace=False)
        drawn.sort()
        arrays = {name: gather_records(signals.last(name), drawn, 1)[:, None] for name in EbLira.needs}
        labels = signals.labels if signals.labels.ndim == 1 else signals.labels[0]
        signals, design = (
            Signals(arrays, (1,), labels[drawn]),
            Design(gather_records(design.in_mask, drawn, 1)),
        )
    # Kinds of records from a few thousand are enough for a mean over all of them.
    return EveryModel(EbLira(fitted_records=2_000)(signals, design).values, design.in_mask)


def _risk(scores: Mapping[str, Scores], in_mask: BoolArray) -> RecordRisk | None:
    found = scores.get(PER_RECORD.label)
    if found is None or len(in_mask) < 2:
        return None
    values, n_records = found.values, in_mask.shape[1]
    counts = np.empty((4, n_records), dtype=np.int32)

    def fill(columns: slice) -> None:
        counts[:, columns] = decision_counts(values[:, columns] > 0, in_mask[:, columns])

    over_blocks(n_records, fill, values, in_mask)
    return risk_of_counts(counts)


def _exposed(risk: RecordRisk) -> dict[str, Any]:
    exposed = risk.exposed(_FALSE_DISCOVERY_RATE)
    return {
        "records": int(exposed.sum()),
        "share": float(exposed.mean()),
        "false_discovery_rate": _FALSE_DISCOVERY_RATE,
        "decision": f"{PER_RECORD.label}'s log ratio above 0, each model judged by the others",
    }


def _questions(config: dict[str, Any]) -> Questions:
    asked = config.get("epsilon") or {"delta": DEFAULT_DELTA, "confidence": DEFAULT_CONFIDENCE}
    return Questions(tuple(config["fpr_budgets"]), **asked)


def _judged_groups(facts: RecordMetadata | None) -> tuple[Groups, dict[str, str]]:
    """The columns to judge group by group, classes among them, and why others are left out."""
    if facts is None:
        return {}, {}
    columns: dict[str, npt.NDArray[np.str_]] = dict(facts.groups)
    if facts.labels.dtype.kind == "U":
        columns.setdefault("label", facts.labels)
    found = {name: Grouping.of(values) for name, values in columns.items()}
    left_out = {
        name: f"{len(groups.names):,} groups; at most {_MOST_GROUPS} are judged"
        for name, groups in found.items()
        if len(groups.names) > _MOST_GROUPS
    }
    return {name: groups for name, groups in found.items() if name not in left_out}, left_out


def _population(bank: Bank, design: Design, targets: IntArray) -> dict[str, Any]:
    return {
        "models": design.n_models,
        "targets": len(targets),
        "records": design.n_records,
        "members": int(design.rows(targets).sum(axis=1).mean().round()),
        "lost_models": {str(m): e for m, e in bank.diverged.items()},
        "seed": bank.identity.seed,
        "recipe": bank.identity.recipe,
        "records_sha256": bank.identity.records.sha256,
    }


def _accuracy(signals: Signals, design: Design, targets: IntArray) -> dict[str, Any] | None:
    if "correct" not in signals.arrays:
        return None
    rates = rates_by_model(signals.last("correct"), design.in_mask)
    return {
        "members": _rate_figure(rates.members[targets], rates.n_members[targets]),
        "nonmembers": _rate_figure(rates.nonmembers[targets], rates.n_nonmembers[targets]),
    }


def _rate_figure(rates: FloatArray, n_asked: IntArray) -> dict[str, Any]:
    if len(rates) > 1:
        return spread_figure(rates)
    exact = clopper_pearson(round(float(rates[0] * n_asked[0])), int(n_asked[0]))
    return {"value": float(rates[0]), "low": exact.low, "high": exact.high, "sd": None}
