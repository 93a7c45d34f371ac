"""The dynamics study's numbers: pure functions of its banks.

Every figure stands beside its noise floor (mean, lowest and highest over permuted designs) and its standard
error (jackknife over groups of models, which are left out as targets and as references alike).
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import leakscope
from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.attacks.registry import attack_classes
from leakscope.bank.bank import Bank
from leakscope.bank.run_folder import to_jsonable
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.early_exposure import early_exposure, first_exposed_epoch
from leakscope.dynamics.grid import (
    cell_names,
    is_vulnerable,
    transition_counts,
    transition_matrix,
    vulnerable_cell,
)
from leakscope.dynamics.jackknife import WANTED, Replicates, jackknife, over_populations
from leakscope.dynamics.metrics import Metrics, metrics
from leakscope.dynamics.noise_floor import NoiseFloor, noise_floor
from leakscope.dynamics.plane import Trajectories, trajectories
from leakscope.evaluate.judge import RECORDS, converged_models
from leakscope.evaluate.record_metadata import write_columns
from leakscope.hardness.correlations import HardnessCorrelation, correlate
from leakscope.hardness.in_out_mean import side_mean
from leakscope.hardness.registry import measured
from leakscope.stats.correlation import Correlation
from leakscope.studies.dynamics.published import EARLY_SHARE, EPISTEMIC_R, comparison
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.types import Design, Records, Signals


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """One setting's figures, and the paths they were made from.

    Attributes:
        setting: what was trained.
        paths: every record's path.
        found: the figures.
        floor: the same with the design permuted.
        replicates: their standard errors.
        vulnerable: bool (checkpoints, records), in the corner.
        hardness: measure -> float64 (records,), high means hard.
        correlations: of each measure with the advantage at the end.
        result: this run's part of results.json.
    """

    setting: Setting
    paths: Trajectories
    found: Metrics
    floor: NoiseFloor
    replicates: Replicates
    vulnerable: BoolArray
    hardness: dict[str, FloatArray]
    correlations: list[HardnessCorrelation]
    result: dict[str, Any]


def judged_run(
    config: DynamicsConfig, setting: Setting, bank: Bank, more_hardness: dict[str, FloatArray] | None = None
) -> JudgedRun:
    """Everything about one bank; `more_hardness`: measures that its signals do not give."""
    signals, design = converged_models(bank)
    attack = attack_classes()[config.attack]()
    side, cells, rule = config.side, config.entropy_cells, config.convention()
    paths = trajectories(decide(attack, signals, design, rule), design.in_mask)
    found = metrics(paths, side, cells)
    floor = noise_floor(attack, signals, design, rule, seed=setting.run_seed, side=side, entropy_cells=cells,
                        n_permutations=config.n_permutations)  # fmt: skip
    replicates = jackknife(attack, signals, design, rule, n_groups=min(config.n_groups, design.n_models),
                           side=side, entropy_cells=cells)  # fmt: skip
    vulnerable = paths.is_defined & is_vulnerable(np.nan_to_num(paths.states), side)
    hardness = {**measured(signals, design), **(more_hardness or {})}
    out_loss = side_mean(signals.last("loss"), ~design.in_mask)
    correlations = correlate(hardness, paths.advantage[-1], vulnerable[-1], out_loss)
    result = {
        "setting": asdict(setting),
        "population": _population(bank, design, paths),
        "epochs": list(paths.epochs),
        "accuracy": _accuracy(signals, design),
        "figures": _figures(found, floor, replicates),
        "advantage": {**replicates.advantage._asdict(), "method": replicates.method, "wanted": WANTED},
        "transitions": _transitions(paths, side),
        "hardness": {row.measure: _correlations(row) for row in correlations},
        "undefined": _undefined(paths, vulnerable),
    }
    return JudgedRun(
        setting, paths, found, floor, replicates, vulnerable, hardness, correlations, to_jsonable(result)
    )


def results_of(config: DynamicsConfig, runs: Sequence[JudgedRun]) -> dict[str, Any]:
    """results.json of the study."""
    results: dict[str, Any] = to_jsonable({
        "experiment": "dynamics of membership exposure",
        "config": asdict(config),
        "conventions": conventions(config),
        "runs": {run.setting.name: run.result for run in runs},
        "populations": _over_populations(config, runs),
        "comparison": comparison([run.result for run in runs]),
        "published": {"epistemic_r": EPISTEMIC_R, "early_share": EARLY_SHARE},
        "runtime": {
            "leakscope": leakscope.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    })  # fmt: skip
    return results


def conventions(config: DynamicsConfig) -> dict[str, str]:
    """How each figure is defined, in words."""
    corner = cell_names(config.side)[vulnerable_cell(config.side)]
    return {
        "decision": f"{config.attack}, every model in turn judged by the others, {config.convention()}",
        "state": "FPR: share of OUT models, TPR: share of IN models, whose answers are taken for a member's",
        "advantage": "TPR - FPR, mean over records",
        "vulnerable": f"in the corner {corner}; a point on a border counts to the higher cell",
        "centre": "mean state; displacement from the first to the last checkpoint, in % of the plane's side",
        "entropy": f"bits, over {config.entropy_cells} x {config.entropy_cells} cells",
        "speed": "mean distance a record moves, in % of the plane's side an epoch",
        "entry": "of the records outside the corner, the share in it at the next checkpoint; an epoch: the "
        "constant rate that lets as many in",
        "early exposure": "of the records vulnerable at the end, the share in the corner at a checkpoint "
        "(recall); of those, the share that stays until the end (precision)",
        "noise floor": f"{config.n_permutations} times, each record's memberships dealt out to models anew, "
        "the same at all checkpoints; mean, lowest and highest",
        "standard error": "jackknife over groups of models, left out as targets and as references",
        "hardness": "high means hard; correlated with the advantage at the end; the partial correlation "
        "holds the mean loss over OUT models fixed",
    }


def record_table(out: Path, runs: Sequence[JudgedRun], records: Sequence[Records]) -> None:
    """records.parquet: one row a run and record, with its state at the end and how hard it is."""
    tables = [_record_columns(run, own) for run, own in zip(runs, records, strict=True)]
    names = dict.fromkeys(name for table in tables for name in table)

    def joined(name: str) -> AnyArray:
        absent = (np.full(len(own), np.nan) for own in records)
        return np.concatenate([t.get(name, nothing) for t, nothing in zip(tables, absent, strict=True)])

    write_columns(out / RECORDS, {name: joined(name) for name in names})


def _record_columns(run: JudgedRun, records: Records) -> dict[str, AnyArray]:
    fpr, tpr = run.paths.states[-1].T
    return {
        "run": np.full(len(records), run.setting.name),
        "id": records.ids,
        "label": np.array(records.class_names)[records.labels],
        "fpr": fpr,
        "tpr": tpr,
        "advantage": tpr - fpr,
        "vulnerable": run.vulnerable[-1],
        "first_exposed_epoch": first_exposed_epoch(run.vulnerable, run.paths.epochs),
        **{f"hardness_{name}": values for name, values in run.hardness.items()},
    }


def _population(bank: Bank, design: Design, paths: Trajectories) -> dict[str, Any]:
    return {
        "models": design.n_models,
        "lost_models": len(bank.diverged),
        "records": design.n_records,
        "judged_records": int(paths.is_defined.sum()),
        "members_a_model": float(design.in_mask.sum(axis=1).mean()),
        "device": bank.manifest.device,
    }


def _accuracy(signals: Signals, design: Design) -> dict[str, list[float]]:
    """Mean accuracy on members and on non-members at each checkpoint."""
    correct = signals.arrays["correct"]
    by_side = {"members": design.in_mask, "nonmembers": ~design.in_mask}
    n_checkpoints = len(signals.epochs)
    return {
        name: [float(correct[:, t][mask].mean()) for t in range(n_checkpoints)]
        for name, mask in by_side.items()
    }


def _figures(found: Metrics, floor: NoiseFloor, replicates: Replicates) -> dict[str, Any]:
    """Figure -> its value, its standard error and its noise floor, of one shape."""
    return {
        name: {
            "value": getattr(found, name),
            "standard_error": getattr(replicates.standard_error, name),
            "floor": {end: getattr(getattr(floor, end), name) for end in ("mean", "low", "high")},
        }
        for name in Metrics._fields
    }


def _transitions(paths: Trajectories, side: int) -> dict[str, Any]:
    """Moves between cells over all of training, and at each step."""
    counts = transition_counts(paths.defined().states, side)  # (steps, from, to)
    return {
        "cells": cell_names(side),
        "overall": transition_matrix(counts.sum(axis=0)),
        "counts": counts,
    }


def _correlations(row: HardnessCorrelation) -> dict[str, Any]:
    def of(found: Correlation) -> dict[str, Any]:
        ends = found.interval
        return {"r": found.r, "low": ends.low, "high": ends.high, "n": found.n, "reason": found.reason}

    return {name: of(value) for name, value in row._asdict().items() if name != "measure"}


def _undefined(paths: Trajectories, vulnerable: BoolArray) -> list[str]:
    """Why some figures are missing, in words; empty when none is."""
    reasons = []
    if len(paths.epochs) == 1:
        reasons.append(
            "There is one checkpoint: this is the final plane; how the records came there is not known."
        )
    reason = early_exposure(vulnerable, paths.epochs).reason
    if reason:
        reasons.append(f"Early exposure is undefined in part: {reason}.")
    return reasons


def _over_populations(config: DynamicsConfig, runs: Sequence[JudgedRun]) -> dict[str, Any]:
    """Setting -> how far its figures differ between independent populations, where there are several."""
    by_setting: dict[str, list[JudgedRun]] = {}
    for run in runs:
        by_setting.setdefault(replace(run.setting, population=0).name, []).append(run)
    found = {}
    for name, group in by_setting.items():
        if len(group) > 1:
            spread = over_populations([run.paths for run in group], config.side, config.entropy_cells)
            found[name] = {
                "method": spread.method,
                "standard_error": spread.standard_error._asdict(),
                "advantage": {**spread.advantage._asdict(), "wanted": WANTED},
            }
    return found
