"""A finished dynamics study read back: what its report needs, without judging anew.

Noise floors and standard errors cost a dozen and a half attacks at every checkpoint; they are in
results.json, and hardness is in records.parquet. Only the paths, which no file holds, are made again
from the banks: one attack a checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.attacks.registry import attack_classes
from leakscope.bank.bank import Bank
from leakscope.disk.parquet import read_stored
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.grid import is_vulnerable
from leakscope.dynamics.jackknife import Replicates, Variation
from leakscope.dynamics.metrics import Metrics
from leakscope.dynamics.noise_floor import NoiseFloor
from leakscope.dynamics.plane import trajectories
from leakscope.evaluate.judge import RECORDS, converged_models
from leakscope.hardness.correlations import HardnessCorrelation
from leakscope.stats.correlation import Correlation
from leakscope.stats.intervals import Interval
from leakscope.studies.dynamics.judge import JudgedRun
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.studies.dynamics.study import bank_folder, config_from

if TYPE_CHECKING:
    import polars as pl

_HARDNESS = "hardness_"


def stored_runs(out: Path, results: dict[str, Any]) -> list[JudgedRun]:
    """Every run of the study in `out`, as `results`, its results.json, has it."""
    import polars as pl

    config, table = config_from(results["config"]), read_stored(out / RECORDS)
    return [
        _stored_run(config, setting, Bank.open(bank_folder(out, setting)), results["runs"][setting.name],
                    table.filter(pl.col("run") == setting.name))
        for setting in config.settings
    ]  # fmt: skip


def _stored_run(
    config: DynamicsConfig, setting: Setting, bank: Bank, result: dict[str, Any], table: pl.DataFrame
) -> JudgedRun:
    signals, design = converged_models(bank)
    attack, figures = attack_classes()[config.attack](), result["figures"]
    paths = trajectories(decide(attack, signals, design, config.convention()), design.in_mask)
    floors = (_metrics(figures, "floor", end) for end in ("mean", "low", "high"))
    advantage = {name: _number(value) for name, value in result["advantage"].items()}
    variation = Variation(**{name: advantage[name] for name in Variation._fields})
    return JudgedRun(
        setting,
        paths,
        _metrics(figures, "value"),
        NoiseFloor(config.n_permutations, *floors),
        Replicates(advantage["method"], config.n_groups, _metrics(figures, "standard_error"), variation),
        paths.is_defined & is_vulnerable(np.nan_to_num(paths.states), config.side),
        {name: table[_HARDNESS + name].cast(float).to_numpy() for name in result["hardness"]},
        [HardnessCorrelation(name, **{k: _correlation(v) for k, v in found.items()})
         for name, found in result["hardness"].items()],
        result,
    )  # fmt: skip


def _metrics(figures: dict[str, Any], part: str, end: str = "") -> Metrics:
    def array(found: dict[str, Any]) -> FloatArray:
        return np.array(found[part][end] if end else found[part], dtype=np.float64)  # null becomes NaN

    return Metrics(**{name: array(figures[name]) for name in Metrics._fields})


def _correlation(found: dict[str, Any]) -> Correlation:
    r, low, high = (_number(found[name]) for name in ("r", "low", "high"))
    interval = Interval(low, high, 0.95, "as stored")
    return Correlation(r, float("nan"), interval, found["n"], found["reason"])


def _number(value: Any) -> Any:
    """A stored number; null is NaN."""
    return float("nan") if value is None else value
