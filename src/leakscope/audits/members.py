"""A list of members: a text or csv file with one record id per line."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from leakscope.array_types import BoolArray
from leakscope.errors import InputError
from leakscope.types import Records


def read_members(path: Path, records: Records) -> BoolArray:
    """Who is a member; bool (records,).

    Args:
        path: the ids are in the first column; a repeated id counts once. A first line that is no id is a
            header.
        records: the records that the ids refer to.

    Raises:
        InputError: the file cannot be read, or an id is not among the records.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            listed = [row[0].strip() for row in csv.reader(file) if row and row[0].strip()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"members={str(path)!r} cannot be read ({error}); write one id per line") from error
    known = set(records.ids.tolist())
    if listed and listed[0] not in known and all(name in known for name in listed[1:2]):
        listed = listed[1:]
    if not listed:
        raise InputError(f"members={str(path)!r} lists no ids; write one id of a member per line")
    unknown = sorted(set(listed) - known)
    if unknown:
        raise InputError(
            f"members={str(path)!r}: {len(unknown)} ids are not among the records (the first is "
            f"{unknown[0]!r}; an id of the records is {str(records.ids[0])!r})"
        )
    is_member: BoolArray = np.isin(records.ids, listed)
    return is_member
