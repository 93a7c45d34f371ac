"""From a bank to figures with intervals: every model a target in turn, judged by the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.attack_figures import Groups, Questions, attack_figures, spread_figure
from leakscope.attacks.registry import ATTACKS
from leakscope.bank.bank import Bank
from leakscope.facts import RecordFacts, write_columns
from leakscope.gate import DEFAULT_CONFIDENCE, DEFAULT_DELTA, Gate, judge_gate
from leakscope.hygiene.checks import check_all
from leakscope.leakage.bits import MEASURES, RecordBits
from leakscope.leakage.checkpoints import bank_leakage
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.per_record import RecordRisk, false_discovery, record_risk
from leakscope.types import AnyArray, BoolArray, Design, FloatArray, IntArray, Scores, Signals

PER_RECORD_ATTACK = next(name for name in ("eb_lira", "lira") if name in ATTACKS)
"""The strongest attack whose score is a log ratio, so that above 0 means "member" for each record."""

RECORDS = "records.parquet"
_FALSE_DISCOVERY_RATE = 0.05
_MOST_GROUPS = 50


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


def judge(bank: Bank, config: dict[str, Any], facts: RecordFacts | None = None) -> Judged:
    """Every number of an audit. Models that diverged are left out and named.

    Args:
        bank: the models' answers.
        config: `attacks`, `fpr_budgets`, and optionally `targets` (model indices, all by default),
            `epsilon` (delta and confidence) and `gate`.
        facts: what is known of the records; None: groups are not judged.
    """
    signals, design, targets, scores = attacked(bank, config)
    questions = _questions(config)
    groups, left_out = _judged_groups(facts)
    in_mask = design.in_mask[targets]
    risk = _risk(scores, in_mask)
    leakage = bank_leakage(signals, design)
    results: dict[str, Any] = {
        "experiment": "audit",
        "config": config,
        "population": _population(bank, design, targets),
        "accuracy": _accuracy(signals, design, targets),
        "attacks": {
            name: attack_figures(scores[name].values, in_mask, questions, groups)
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
    signals, design = living(bank)
    given = config.get("targets")
    targets = np.arange(design.n_models) if given is None else np.asarray(given, dtype=np.int64)
    return Attacked(signals, design, targets, _scores(config["attacks"], signals, design, targets))


def judge_bank(bank: Bank, config: dict[str, Any]) -> dict[str, Any]:
    """The results alone."""
    return judge(bank, config).results


def living(bank: Bank) -> tuple[Signals, Design]:
    """Signals and design of the models that did not diverge."""
    design = bank.design()
    if not bank.lost:
        return bank.signals(), design
    alive = np.setdiff1d(np.arange(design.n_models), list(bank.lost))
    return bank.signals().take(alive), design.take(alive)


def write_record_table(folder: Path, facts: RecordFacts, judged: Judged) -> None:
    """records.parquet: ids, labels, groups, each record's risk and bits; of a single target, its scores."""
    columns: dict[str, AnyArray] = {"id": facts.ids, "label": facts.labels, **facts.groups}
    risk = judged.risk
    if risk is not None:
        columns |= {name: value for name, value in asdict(risk).items() if isinstance(value, np.ndarray)}
        columns["exposed"] = false_discovery(risk.p_value, _FALSE_DISCOVERY_RATE).exposed
    if judged.leakage is not None:
        columns |= {name: getattr(judged.leakage, name) for name in MEASURES}
    for name, scores in judged.scores.items():
        if len(scores.targets) == 1:
            columns["is_member"] = judged.design.in_mask[scores.targets[0]]
            columns[f"score_{name}"] = scores.values[0]
    write_columns(folder / RECORDS, columns)


def _scores(names: list[str], signals: Signals, design: Design, targets: IntArray) -> dict[str, Scores]:
    """Scores of the attacks asked for and, where several targets allow it, of the per-record one."""
    wanted = list(names)
    needed = ATTACKS[PER_RECORD_ATTACK].needs
    if len(targets) > 1 and all(signal in signals.arrays for signal in needed):
        wanted.append(PER_RECORD_ATTACK)
    return {name: ATTACKS[name]()(signals, design, targets) for name in dict.fromkeys(wanted)}


def _every_model_attacked(
    scores: Mapping[str, Scores], signals: Signals, design: Design
) -> FloatArray | None:
    """Per-record scores of every model, also those that are no targets; None where there are too few."""
    found = scores.get(PER_RECORD_ATTACK)
    if found is not None and len(found.targets) == design.n_models:
        return found.values
    if design.n_models < 2 or any(name not in signals.arrays for name in ATTACKS[PER_RECORD_ATTACK].needs):
        return None
    return ATTACKS[PER_RECORD_ATTACK]()(signals, design).values


def _risk(scores: Mapping[str, Scores], in_mask: BoolArray) -> RecordRisk | None:
    found = scores.get(PER_RECORD_ATTACK)
    return None if found is None or len(in_mask) < 2 else record_risk(found.values > 0, in_mask)


def _exposed(risk: RecordRisk) -> dict[str, Any]:
    exposed = false_discovery(risk.p_value, _FALSE_DISCOVERY_RATE).exposed
    return {
        "records": int(exposed.sum()),
        "share": float(exposed.mean()),
        "false_discovery_rate": _FALSE_DISCOVERY_RATE,
        "decision": f"{PER_RECORD_ATTACK}'s log ratio above 0, each model judged by the others",
    }


def _questions(config: dict[str, Any]) -> Questions:
    asked = config.get("epsilon") or {"delta": DEFAULT_DELTA, "confidence": DEFAULT_CONFIDENCE}
    return Questions(tuple(config["fpr_budgets"]), **asked)


def _judged_groups(facts: RecordFacts | None) -> tuple[Groups, dict[str, str]]:
    """The columns to judge group by group, classes among them, and why others are left out."""
    if facts is None:
        return {}, {}
    columns: dict[str, npt.NDArray[np.str_]] = dict(facts.groups)
    if facts.labels.dtype.kind == "U":
        columns.setdefault("label", facts.labels)
    n_groups = {name: len(np.unique(values)) for name, values in columns.items()}
    left_out = {
        name: f"{n:,} groups; at most {_MOST_GROUPS} are judged"
        for name, n in n_groups.items()
        if n > _MOST_GROUPS
    }
    return {name: values for name, values in columns.items() if name not in left_out}, left_out


def _population(bank: Bank, design: Design, targets: IntArray) -> dict[str, Any]:
    return {
        "models": design.n_models,
        "targets": len(targets),
        "records": design.n_columns,
        "members": int(design.in_mask[targets].sum(axis=1).mean().round()),
        "lost_models": {str(m): e for m, e in bank.lost.items()},
        "seed": bank.identity["seed"],
        "recipe": bank.identity["recipe"],
        "records_sha256": bank.identity["records"]["sha256"],
    }


def _accuracy(signals: Signals, design: Design, targets: IntArray) -> dict[str, Any] | None:
    if "correct" not in signals.arrays:
        return None
    correct, in_mask = signals.last("correct")[targets], design.in_mask[targets]
    return {"members": _rate_figure(correct, in_mask), "nonmembers": _rate_figure(correct, ~in_mask)}


def _rate_figure(correct: AnyArray, mask: BoolArray) -> dict[str, Any]:
    if len(mask) > 1:
        return spread_figure(rate_by_model(correct, mask))
    exact = clopper_pearson(int((correct & mask).sum()), int(mask.sum()))
    return {"value": float(correct[mask].mean()), "low": exact.low, "high": exact.high, "sd": None}


def rate_by_model(correct: AnyArray, mask: BoolArray) -> FloatArray:
    """Share of the masked records that each model gets right; float64 (models,)."""
    rate: FloatArray = (correct & mask).sum(axis=1) / mask.sum(axis=1)
    return rate
