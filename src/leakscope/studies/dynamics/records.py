"""What the reports draw about single records besides the results: paths, hardness, and records.parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.bank.bank import Bank
from leakscope.disk.parquet import read_stored
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.grid import first_exposed_epoch, is_vulnerable
from leakscope.dynamics.plane import Trajectories, trajectories
from leakscope.evaluate.attacked import converged_models
from leakscope.evaluate.judge import RECORDS
from leakscope.evaluate.record_metadata import RecordMetadata, write_columns
from leakscope.studies.dynamics.results import DynamicsResults
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.types import Design, Records, Signals

_HARDNESS = "hardness_"


@dataclass(frozen=True, eq=False)
class RunRecords:
    """The records of one run.

    Attributes:
        name: name of the run.
        paths: the path of every record over the plane.
        vulnerable: bool (checkpoints, records), whether a record is in the vulnerable corner.
        hardness: measure -> float64 (records,), high means hard.
    """

    name: str
    paths: Trajectories
    vulnerable: BoolArray
    hardness: Mapping[str, FloatArray]


def run_records(
    config: DynamicsConfig, name: str, signals: Signals, design: Design, hardness: Mapping[str, FloatArray]
) -> RunRecords:
    """The records of one run, by one attack per checkpoint."""
    decisions = decide(config.resolved_attack(), signals, design, config.fpr)
    paths = trajectories(decisions, design.in_mask)
    vulnerable = paths.is_defined & is_vulnerable(np.nan_to_num(paths.states), config.side)
    return RunRecords(name, paths, vulnerable, hardness)


def stored_records(out: Path, results: DynamicsResults) -> list[RunRecords]:
    """The records of every run of a finished study.

    Hardness is read from records.parquet. No file holds the paths, so they are computed from the banks.
    """
    import polars as pl

    table = read_stored(out / RECORDS)
    runs = []
    for setting in results.config.settings:
        own = table.filter(pl.col("run") == setting.name)
        measures = results.runs[setting.name].hardness
        hardness = {name: own[_HARDNESS + name].cast(float).to_numpy() for name in measures}
        signals, design = converged_models(Bank.open(bank_folder(out, setting)))
        runs.append(run_records(results.config, setting.name, signals, design, hardness))
    return runs


def record_names(records: Records) -> RecordMetadata:
    """Ids and class names of the records."""
    return RecordMetadata(records.ids, np.array(records.class_names)[records.labels])


def write_record_table(out: Path, runs: Sequence[RunRecords], records: Sequence[RecordMetadata]) -> None:
    """records.parquet: one row per run and record, with its state at the end and its hardness."""
    tables = [_columns(run, own) for run, own in zip(runs, records, strict=True)]
    names = dict.fromkeys(name for table in tables for name in table)

    def joined(name: str) -> AnyArray:
        missing = (np.full(len(own.ids), np.nan) for own in records)
        return np.concatenate([t.get(name, nothing) for t, nothing in zip(tables, missing, strict=True)])

    write_columns(out / RECORDS, {name: joined(name) for name in names})


def bank_folder(out: Path, setting: Setting) -> Path:
    """The folder of a setting's bank."""
    return out / "banks" / setting.name


def _columns(run: RunRecords, records: RecordMetadata) -> dict[str, AnyArray]:
    fpr, tpr = run.paths.states[-1].T
    return {
        "run": np.full(len(records.ids), run.name),
        "id": records.ids,
        "label": records.labels,
        "fpr": fpr,
        "tpr": tpr,
        "advantage": run.paths.advantage[-1],
        "vulnerable": run.vulnerable[-1],
        "first_exposed_epoch": first_exposed_epoch(run.vulnerable, run.paths.epochs),
        **{f"{_HARDNESS}{name}": values for name, values in run.hardness.items()},
    }
