"""Single records: which are exposed in one run and not in the other, and for which is the change significant?

Records are paired by id. Whether a record's advantage changed is tested from its four counts in each run; at
most 5% of the records reported as changed are expected to be false alarms (Benjamini and Hochberg). The
interval of the difference in the share exposed is over records, with the models of both runs fixed: another
population could differ by more. It therefore decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.compare.results import RecordChanges
from leakscope.disk.parquet import as_corrupt_table_error, read_stored, stored_columns
from leakscope.errors import CorruptBankError, InputError
from leakscope.evaluate.exposure import FALSE_DISCOVERY_RATE
from leakscope.evaluate.judge import RECORDS
from leakscope.evaluate.record_metadata import Column, nullable, write_tables
from leakscope.stats.differences import record_change_p_values
from leakscope.stats.estimate import Estimate
from leakscope.stats.per_record import false_discovery, risk_of_counts

_KINDS = {"n_in": "i", "n_out": "i", "tpr": "f", "fpr": "f", "advantage": "f"}
"""Column of records.parquet -> kind of its numpy type."""


class _Exposure(NamedTuple):
    """The exposure of each record in one run.

    Attributes:
        ids: str (records,).
        advantage: float64 (records,).
        exposed: bool (records,).
        resolved: bool (records,), whether the models can tell if it is exposed.
        counts: int64 (4, records): true positives, IN targets, false positives, OUT targets.
    """

    ids: npt.NDArray[np.str_]
    advantage: FloatArray
    exposed: BoolArray
    resolved: BoolArray
    counts: IntArray


class _Change(NamedTuple):
    """How each record's advantage changed; arrays (records,)."""

    advantage: FloatArray
    p_value: FloatArray
    is_significant: BoolArray


def changed_records(baseline: Path, other: Path) -> RecordChanges:
    """How many records are exposed in which of two run folders, and how many changed."""
    first, second = _paired(baseline, other)
    change = _change(first, second)
    rises = change.advantage > 0
    resolved = first.resolved & second.resolved
    return RecordChanges(
        records=len(first.ids),
        resolved=int(resolved.sum()),
        exposed_baseline=_count(first.exposed, first.resolved),
        exposed_other=_count(second.exposed, second.resolved),
        exposed_both=_count(first.exposed & second.exposed, resolved),
        share_difference=_share_difference(first.exposed[resolved], second.exposed[resolved]),
        more_exposed=int((change.is_significant & rises).sum()),
        less_exposed=int((change.is_significant & ~rises).sum()),
        false_discovery_rate=FALSE_DISCOVERY_RATE,
        mean_advantage_baseline=float(np.nanmean(first.advantage)),
        mean_advantage_other=float(np.nanmean(second.advantage)),
    )


def _count(exposed: BoolArray, resolved: BoolArray) -> int | None:
    """Number of exposed records; None where it is known of no record whether it is one."""
    return int(exposed.sum()) if resolved.any() else None


def _share_difference(first: BoolArray, second: BoolArray) -> Estimate:
    if not len(first):
        return Estimate(None, None, None)
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    interval = paired_share_interval(only_first, only_second, len(first))
    return Estimate((only_second - only_first) / len(first), *interval)


def write_changes(folder: Path, baseline: Path, others: Mapping[str, Path]) -> None:
    """records.parquet: one row per run and record, with the advantage in both runs."""
    parts = [_columns(name, *_paired(baseline, other)) for name, other in others.items()]
    write_tables(folder / RECORDS, parts)


def paired_share_interval(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """95% interval of the difference of two paired shares, second minus first (Agresti and Min 2005).

    Of `n` records, so many have the property in the first or in the second sample only.
    """
    first, second, total = only_first + 0.5, only_second + 0.5, n + 2
    middle = (second - first) / total
    half_width = scipy.special.ndtri(0.975) * np.sqrt((first + second) / total - middle**2) / np.sqrt(total)
    return float(max(middle - half_width, -1.0)), float(min(middle + half_width, 1.0))


def _columns(name: str, first: _Exposure, second: _Exposure) -> dict[str, Column]:
    change = _change(first, second)
    return {
        "run": np.full(len(first.ids), name),
        "id": first.ids,
        "advantage_baseline": first.advantage,
        "advantage_other": second.advantage,
        "exposed_baseline": nullable(first.exposed, first.resolved),
        "exposed_other": nullable(second.exposed, second.resolved),
        "p_value": change.p_value,
        "changed": change.is_significant,
    }


def _change(first: _Exposure, second: _Exposure) -> _Change:
    """The decisions about a record share references, so their four rates vary together.

    Where it leaks in neither run, that alone can make them differ. But then members and non-members may be
    exchanged, which makes Fisher's test valid: a record has changed only if one of the runs detects it.
    """
    detected = np.minimum(*(risk_of_counts(one.counts).column("p_value") for one in (first, second)))
    p_value = np.maximum(record_change_p_values(first.counts, second.counts), np.minimum(2 * detected, 1))
    is_significant = false_discovery(p_value, FALSE_DISCOVERY_RATE)
    return _Change(second.advantage - first.advantage, p_value, is_significant)


def _paired(baseline: Path, other: Path) -> tuple[_Exposure, _Exposure]:
    first, second = _exposure(baseline), _exposure(other)
    if not np.array_equal(first.ids, second.ids):
        raise InputError(
            f"{other / RECORDS} lists different records from {baseline / RECORDS}; audit both again"
        )
    return first, second


def _are_rates(columns: Mapping[str, AnyArray]) -> bool:
    """Whether the columns hold what an audit writes: numbers of models, and rates from 0 to 1 or NaN."""
    if any(values.dtype.kind != _KINDS[name] for name, values in columns.items()):
        return False
    rates = np.nan_to_num(np.concatenate([columns["tpr"], columns["fpr"]]))
    n_models = np.concatenate([columns["n_in"], columns["n_out"]])
    return bool(((rates >= 0) & (rates <= 1)).all() and ((n_models >= 0) & (n_models < 1 << 31)).all())


def _exposure(folder: Path) -> _Exposure:
    path = folder / RECORDS
    if not path.exists() or "n_in" not in stored_columns(path):
        raise InputError(f"{path} does not hold the risk of each record; run the same audit again")
    frame = read_stored(path, ["id", "exposed", *_KINDS])
    with as_corrupt_table_error(path):
        ids = frame["id"].to_numpy().astype(str)
        columns = {name: frame[name].to_numpy() for name in _KINDS}
    exposed = frame["exposed"]
    if not _are_rates(columns) or str(exposed.dtype) != "Boolean":
        raise CorruptBankError(f"{path} is damaged: it holds no rates; run the same audit again")
    hits = np.nan_to_num(columns["tpr"]) * columns["n_in"]
    alarms = np.nan_to_num(columns["fpr"]) * columns["n_out"]
    counts = np.stack([hits.round(), columns["n_in"], alarms.round(), columns["n_out"]]).astype(np.int64)
    flags = exposed.fill_null(value=False).to_numpy(), exposed.is_not_null().to_numpy()
    return _Exposure(ids, columns["advantage"], *flags, counts)
