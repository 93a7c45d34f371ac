"""Record by record: who is exposed in one run and not in the other, beyond chance?

Records pair by their ids. Whether a record's advantage changed is tested from its four counts in each run;
of the records listed as changed at most 5% are expected to be chance (Benjamini and Hochberg). The interval
of the share exposed is over records, both runs' models taken as given: it says how far these records differ,
not what another population would show. So it decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.parquet import as_corrupt_table_error, read_stored, stored_columns
from leakscope.errors import CorruptBankError, InputError
from leakscope.evaluate.judge import RECORDS
from leakscope.evaluate.record_metadata import write_columns
from leakscope.stats.differences import record_change_p_values
from leakscope.stats.per_record import false_discovery

_FALSE_DISCOVERY_RATE = 0.05
_KINDS = {"n_in": "i", "n_out": "i", "tpr": "f", "fpr": "f", "advantage": "f", "exposed": "b"}
"""Column of records.parquet -> its kind of numbers."""


class _Exposure(NamedTuple):
    """What a run knows of each record; arrays (records,), counts (4, records)."""

    ids: npt.NDArray[np.str_]
    advantage: FloatArray
    exposed: BoolArray
    counts: IntArray  # hits, IN targets, false alarms, OUT targets


class _Change(NamedTuple):
    """How each record's advantage changed; arrays (records,)."""

    advantage: FloatArray
    p_value: FloatArray
    is_changed: BoolArray


def changed_records(baseline: Path, other: Path) -> dict[str, Any]:
    """How many records are exposed in which run, and how many changed; for results.json."""
    first, second = _paired(baseline, other)
    change = _change(first, second)
    rises = change.advantage > 0
    only_first = int((first.exposed & ~second.exposed).sum())
    only_second = int((second.exposed & ~first.exposed).sum())
    low, high = paired_share_interval(only_first, only_second, len(first.ids))
    return {
        "records": len(first.ids),
        "exposed_baseline": int(first.exposed.sum()),
        "exposed_other": int(second.exposed.sum()),
        "exposed_both": int((first.exposed & second.exposed).sum()),
        "share_difference": {"value": (only_second - only_first) / len(first.ids), "low": low, "high": high},
        "more_exposed": int((change.is_changed & rises).sum()),
        "less_exposed": int((change.is_changed & ~rises).sum()),
        "false_discovery_rate": _FALSE_DISCOVERY_RATE,
        "mean_advantage_baseline": float(np.nanmean(first.advantage)),
        "mean_advantage_other": float(np.nanmean(second.advantage)),
    }


def write_changes(folder: Path, baseline: Path, others: Mapping[str, Path]) -> None:
    """records.parquet: one row a run and record, with its advantage in both; nothing without exposure."""
    parts = [
        _columns(name, *_paired(baseline, other))
        for name, other in others.items()
        if _has_exposure(baseline) and _has_exposure(other)
    ]
    if parts:
        write_columns(
            folder / RECORDS, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        )


def paired_share_interval(
    only_first: int, only_second: int, n: int, level: float = 0.95
) -> tuple[float, float]:
    """Interval of a difference of paired shares, second minus first (Agresti and Min 2005).

    Args:
        only_first: records with the property in the first alone.
        only_second: in the second alone.
        n: records.
        level: two-sided confidence.
    """
    first, second, total = only_first + 0.5, only_second + 0.5, n + 2
    middle = (second - first) / total
    half_width = (
        special.ndtri((1 + level) / 2) * np.sqrt((first + second) / total - middle**2) / np.sqrt(total)
    )
    return float(max(middle - half_width, -1.0)), float(min(middle + half_width, 1.0))


def _columns(name: str, first: _Exposure, second: _Exposure) -> dict[str, AnyArray]:
    change = _change(first, second)
    return {
        "run": np.full(len(first.ids), name),
        "id": first.ids,
        "advantage_baseline": first.advantage,
        "advantage_other": second.advantage,
        "exposed_baseline": first.exposed,
        "exposed_other": second.exposed,
        "p_value": change.p_value,
        "changed": change.is_changed,
    }


def _change(first: _Exposure, second: _Exposure) -> _Change:
    p_value = record_change_p_values(first.counts, second.counts)
    found = false_discovery(p_value, _FALSE_DISCOVERY_RATE)
    return _Change(second.advantage - first.advantage, p_value, found.exposed)


def _paired(baseline: Path, other: Path) -> tuple[_Exposure, _Exposure]:
    first, second = _exposure(baseline), _exposure(other)
    if not np.array_equal(first.ids, second.ids):
        raise InputError(f"{other / RECORDS} lists other records than {baseline / RECORDS}; audit both again")
    return first, second


def _has_exposure(folder: Path) -> bool:
    return (folder / RECORDS).exists() and "n_in" in stored_columns(folder / RECORDS)


def _are_rates(columns: Mapping[str, AnyArray]) -> bool:
    """Whether they are what an audit writes: numbers of models, and shares of them or NaN."""
    if any(values.dtype.kind != _KINDS[name] for name, values in columns.items()):
        return False
    rates = np.nan_to_num(np.concatenate([columns["tpr"], columns["fpr"]]))
    n_models = np.concatenate([columns["n_in"], columns["n_out"]])
    return bool(((rates >= 0) & (rates <= 1)).all() and ((n_models >= 0) & (n_models < 1 << 31)).all())


def _exposure(folder: Path) -> _Exposure:
    if not _has_exposure(folder):
        raise InputError(f"{folder / RECORDS} has no risk of single records; run the same audit again")
    frame = read_stored(folder / RECORDS, ["id", *_KINDS])
    with as_corrupt_table_error(folder / RECORDS):
        ids = frame["id"].to_numpy().astype(str)
        columns = {name: frame[name].to_numpy() for name in _KINDS}
    if not _are_rates(columns):
        raise CorruptBankError(
            f"{folder / RECORDS} is damaged (it holds no rates of records); run the same audit again"
        )
    hits = np.nan_to_num(columns["tpr"]) * columns["n_in"]
    alarms = np.nan_to_num(columns["fpr"]) * columns["n_out"]
    counts = np.stack([hits.round(), columns["n_in"], alarms.round(), columns["n_out"]]).astype(np.int64)
    return _Exposure(ids, columns["advantage"], columns["exposed"].astype(bool), counts)
