"""From a bank to figures with intervals: every model a target in turn, judged by the others."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.attacks.lira import Lira
from leakscope.attacks.registry import ATTACKS
from leakscope.bank.bank import Bank
from leakscope.bank.storage import write_bytes
from leakscope.stats.headline import headline_rows
from leakscope.stats.intervals import spread_over_targets
from leakscope.stats.per_record import RecordRisk, false_discovery, record_risk
from leakscope.stats.roc import why_unresolvable
from leakscope.types import AnyArray, BoolArray, Design, FloatArray, Records, Signals

_FALSE_DISCOVERY_RATE = 0.05
_DECISION = "LiRA's log ratio above 0, each model judged by the others"


def judge_bank(bank: Bank, config: dict[str, Any]) -> dict[str, Any]:
    """Every number of an audit. Models that diverged are left out and named."""
    signals, design = living(bank)
    results: dict[str, Any] = {
        "experiment": "audit",
        "config": config,
        "population": {
            "models": design.n_models,
            "records": design.n_columns,
            "lost_models": {str(m): e for m, e in bank.lost.items()},
            "seed": bank.identity["seed"],
            "recipe": bank.identity["recipe"],
            "records_sha256": bank.identity["records"]["sha256"],
        },
        "accuracy": _accuracy(signals, design),
        "attacks": {name: _attack_figures(name, signals, design, config) for name in config["attacks"]},
    }
    if "log_odds" in signals.arrays:
        exposed = false_discovery(lira_risk(signals, design).p_value, _FALSE_DISCOVERY_RATE).exposed
        results["exposed"] = {
            "records": int(exposed.sum()),
            "share": float(exposed.mean()),
            "false_discovery_rate": _FALSE_DISCOVERY_RATE,
            "decision": _DECISION,
        }
    return results


def living(bank: Bank) -> tuple[Signals, Design]:
    """Signals and design of the models that did not diverge."""
    design = bank.design()
    if not bank.lost:
        return bank.signals(), design
    alive = np.setdiff1d(np.arange(design.n_models), list(bank.lost))
    return bank.signals().take(alive), design.take(alive)


def lira_risk(signals: Signals, design: Design) -> RecordRisk:
    """Each record's own exposure over all models."""
    scores = Lira()(signals, design)
    return record_risk(scores.values > 0, design.in_mask)


@dataclass(frozen=True, eq=False)
class RecordTable:
    """One row a record, as columns."""

    columns: dict[str, AnyArray]

    def write(self, folder: Path) -> None:
        """Writes records.parquet."""
        import polars as pl

        content = io.BytesIO()
        pl.DataFrame(self.columns).write_parquet(content)
        write_bytes(folder / "records.parquet", content.getvalue())


def record_table(records: Records, bank: Bank, results: dict[str, Any]) -> RecordTable:
    """Ids, labels, groups and, where LiRA can be run, each record's risk with its interval."""
    labels = np.array(records.class_names)[records.labels] if records.is_classification else records.labels
    columns: dict[str, AnyArray] = {"id": records.ids, "label": labels, **records.groups}
    if "exposed" in results:
        risk = lira_risk(*living(bank))
        columns |= {name: value for name, value in asdict(risk).items() if isinstance(value, np.ndarray)}
        columns["exposed"] = false_discovery(risk.p_value, _FALSE_DISCOVERY_RATE).exposed
    return RecordTable(columns)


def _accuracy(signals: Signals, design: Design) -> dict[str, Any] | None:
    if "correct" not in signals.arrays:
        return None
    correct = signals.last("correct")
    return {
        "members": _spread(_rate_by_model(correct, design.in_mask)),
        "nonmembers": _spread(_rate_by_model(correct, ~design.in_mask)),
    }


def _rate_by_model(correct: AnyArray, mask: BoolArray) -> FloatArray:
    rate: FloatArray = (correct & mask).sum(axis=1) / mask.sum(axis=1)
    return rate


def _attack_figures(name: str, signals: Signals, design: Design, config: dict[str, Any]) -> dict[str, Any]:
    """AUC, advantage and TPR at each FPR budget: mean over targets with its interval."""
    budgets = config["fpr_budgets"]
    scores = ATTACKS[name]()(signals, design)
    rows = headline_rows(scores.values, design.in_mask, budgets)
    return {
        "auc": _spread(np.array([row.auc for row in rows])),
        "advantage": _spread(np.array([row.advantage for row in rows])),
        "tpr_at_fpr": [
            {
                "fpr": budget,
                **_spread(np.array([row.points[i].tpr for row in rows])),
                "reason": why_unresolvable(budget, rows[0].n_members, rows[0].n_nonmembers) or None,
            }
            for i, budget in enumerate(budgets)
        ],
        "targets": len(rows),
    }


def _spread(values: FloatArray) -> dict[str, Any]:
    found = spread_over_targets(values)
    return {"value": found.mean, "low": found.interval.low, "high": found.interval.high, "sd": found.sd}
