"""Who is a member: single records, or units such as patients, whose records are in a training set together.

A unit is named by a column of the records. Rows without a value there would all count as one person, so they
are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, IntArray
from leakscope.data.column_file import MISSING_GROUP
from leakscope.design import number_units, unit_sizes
from leakscope.errors import InputError, did_you_mean
from leakscope.evaluate.config import RECORDS_PER_MODEL
from leakscope.evaluate.nouns import Noun
from leakscope.types import Design, Records

_CANARY = "canary "
_LOG_CHANCE = -20.0
_FEWEST_ROWS, _FEWEST_PEOPLE, _MOST_ROWS_EACH, _LARGEST_SHARE = 20, 10, 100, 0.9
_ID = re.compile(r"(^|[ _.-])(id|ids|key|uuid|guid|ID|KEY)$|(?<=[a-z])(Id|ID)$")
_PEOPLE = frozenset({
    "account", "author", "client", "customer", "donor", "employee", "family", "household", "member",
    "participant", "patient", "person", "student", "subject", "user",
})  # fmt: skip
_MISSING = (MISSING_GROUP, "", "nan", "NaN", "None")


class Rows(NamedTuple):
    """What is known of rows that are no records of ours.

    Attributes:
        ids: str (rows,).
        name: of the file.
        groups: column name -> str (rows,).
    """

    ids: npt.NDArray[np.str_]
    name: str
    groups: Mapping[str, npt.NDArray[np.str_]]


def units_of(records: Records | Rows, unit: str | None) -> IntArray | None:
    """The unit of each record; None where every record is its own.

    Raises:
        InputError: the records have no such column, or some have no value in it.
    """
    if unit is None:
        return None
    if unit not in records.groups:
        known = sorted(records.groups)
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise InputError(
            f"unit={unit!r}: {records.name} has no such column among its groups ({has}); "
            f"{did_you_mean(unit, known, after=' ')}name the column that says whose record it is"
        )
    names = records.groups[unit]
    is_missing = np.isin(names, _MISSING)
    if is_missing.any():
        first = records.ids[int(np.argmax(is_missing))]
        raise InputError(
            f"unit={unit!r}: {int(is_missing.sum()):,} records have no value (first: id {first}), and would "
            "count as one unit; drop them, or fill the column"
        )
    units = number_units(names)
    if units.max() == 0:
        raise InputError(f"unit={unit!r}: all records belong to {names[0]!r}; name another column")
    return units


def first_of_units(records: Records | Rows, unit: str | None) -> IntArray | slice:
    """One record of each unit, in the order of the units; all records where every record is its own."""
    units = units_of(records, unit)
    return slice(None) if units is None else np.unique(units, return_index=True)[1]


def canaries_apart(records: Records, unit: str | None) -> Records:
    """The records, with every canary as a unit of its own: its membership says nothing of a real one."""
    if unit is None or records.is_canary is None or unit not in records.groups:
        return records
    own = np.char.add(_CANARY, records.ids)
    names = np.where(records.is_canary, own, records.groups[unit])
    return replace(records, groups={**records.groups, unit: names})


def unit_facts(unit: str | None, design: Design) -> dict[str, str]:
    """What the report says about units, and how the sizes of training sets vary with them."""
    if unit is None or design.units is None:
        return {}
    sizes, n_trained = unit_sizes(design.units), design.in_mask.sum(axis=1)
    noun = Noun.of_unit(unit)
    return {
        "unit": f"{noun.one}: {len(sizes):,} {noun.many} with {_span(sizes)} records each",
        RECORDS_PER_MODEL: f"{_span(n_trained)} of {design.n_records:,}",
    }


def check_members(is_member: BoolArray, units: IntArray | None, unit: str | None) -> None:
    """Refuses a list of members that takes some records of a unit and leaves out others."""
    if units is None:
        return
    n_members, sizes = np.bincount(units, weights=is_member), unit_sizes(units)
    n_split = int(((n_members > 0) & (n_members < sizes)).sum())
    if n_split:
        raise InputError(
            f"unit={unit!r}: of {n_split:,} {Noun.of_unit(unit).many} some records are members and others "
            "are not; who is a member must be a member with all records, or leave unit out"
        )


def _span(counts: IntArray) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def repeated_ids(records: Records, unit: str | None) -> list[str]:
    """Columns that look like ids of people with several rows each, where every record is a unit."""
    if unit is not None or len(records) < _FEWEST_ROWS:
        return []
    counts = {name: len(np.unique(values)) for name, values in records.groups.items()}
    counts |= _values_of_features(records)
    return [
        f"{name!r} has {n_values:,} values in {len(records):,} rows; if these are people, rows of one person "
        "are in both halves, which understates the risk of persons: set "
        f"unit = {name!r}"
        for name, n_values in counts.items()
        if are_people(name, n_values, len(records))
    ]


def are_people(name: str, n_values: int, n_rows: int) -> bool:
    """Whether a column looks like ids of people with several rows each, by its name and number of values."""
    is_repeated = n_rows / _MOST_ROWS_EACH <= n_values <= _LARGEST_SHARE * n_rows
    return is_repeated and n_values >= _FEWEST_PEOPLE and _names_people(name)


def rows_that_belong_together(columns: Mapping[str, npt.NDArray[np.str_]], is_member: BoolArray) -> list[str]:
    """Columns whose values never occur both among members and non-members, which chance would not do."""
    return [name for name, values in columns.items() if _log_chance(values, is_member) < _LOG_CHANCE]


def _log_chance(values: npt.NDArray[np.str_], is_member: BoolArray) -> float:
    """Log probability that no value is on both sides, if each row were drawn by itself; 0 where one is."""
    _, codes, sizes = np.unique(values, return_inverse=True, return_counts=True)
    n_members, share = np.bincount(codes, weights=is_member), float(is_member.mean())
    if len(sizes) < _FEWEST_PEOPLE or ((n_members > 0) & (n_members < sizes)).any():
        return 0.0
    return float(np.log(share**sizes + (1 - share) ** sizes)[sizes > 1].sum())


def _values_of_features(records: Records) -> dict[str, int]:
    """The number of different values of each feature that is called like an id."""
    counts = {}
    for column in records.reading.columns if records.reading is not None else ():
        if not _names_people(column.name):
            continue
        if column.values:
            counts[column.name] = column.values
        elif column.kind == "number" and column.name in records.feature_names:
            numbers = records.features[:, records.feature_names.index(column.name)]
            counts[column.name] = len(np.unique(numbers))
    return counts


def _names_people(name: str) -> bool:
    return _ID.search(name) is not None or bool(_PEOPLE & set(re.split(r"[^a-z]+", name.lower())))
