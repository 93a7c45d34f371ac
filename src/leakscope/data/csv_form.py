"""The form of a csv file: its separator and its header, and whether it is UTF-8; polars guesses neither."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from pathlib import Path

from leakscope.disk.storage import open_regular
from leakscope.errors import InputError

_SEPARATORS = (",", ";", "\t", "|")
_USUAL_HEADER, _LONGEST_HEADER = 1 << 16, 1 << 24  # bytes
_AT_ONCE = 1 << 22


def csv_separator(path: Path) -> str:
    """The character that separates the columns: the one that divides the header into most.

    Raises:
        InputError: two columns have the same name, or the file is not UTF-8; says which and what to do.
    """
    with open_regular(path) as file:
        start = file.read(_USUAL_HEADER)
        rest = b"" if b"\n" in start else file.read(_LONGEST_HEADER)
    head = (start + rest).decode("utf-8-sig", errors="replace")
    if head.startswith("sep="):
        raise InputError("begins with a line for spreadsheets, 'sep='; remove that line")
    headers = {separator: _header(head, separator) for separator in _SEPARATORS}
    separator = max(_SEPARATORS, key=lambda one: len(headers[one]))  # of equals, the first
    names = headers[separator]
    repeated = sorted(name for name, number in Counter(names).items() if number > 1)
    if repeated:
        raise InputError(
            f"has several columns called {', '.join(map(repr, repeated))}; rename or remove all but one"
        )
    _check_utf8(path, separator, names)
    return separator


def _header(text: str, separator: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text), delimiter=separator), [])
    except csv.Error:  # a field that is longer than Python allows
        return []


def _check_utf8(path: Path, separator: str, names: list[str]) -> None:
    decoder, n_read = codecs.getincrementaldecoder("utf-8")(), 0
    with open_regular(path) as file:
        while True:
            part = file.read(_AT_ONCE)
            n_pending = len(decoder.getstate()[0])
            try:
                decoder.decode(part, final=not part)
            except UnicodeDecodeError as error:
                raise InputError(
                    _not_utf8(path, separator, names, n_read - n_pending + error.start)
                ) from error
            if not part:
                return
            n_read += len(part)


def _not_utf8(path: Path, separator: str, names: list[str], offset: int) -> str:
    """The message, with the line and, where it can be known, the column of the first byte that is wrong."""
    with open_regular(path) as file:
        before = file.read(offset)
        line_starts = before.rfind(b"\n") + 1
        line = before[line_starts:] + file.readline(_LONGEST_HEADER)
    number = before.count(b"\n") + 1
    fields = _header(line.decode("latin-1"), separator)
    at = next((k for k, field in enumerate(fields) if not field.isascii()), len(names))
    is_known = number > 1 and len(fields) == len(names) and at < len(names)
    where = f"column {names[at]!r}, line {number:,}" if is_known else f"line {number:,}"
    return f"is not UTF-8 text ({where}); save it as UTF-8, for example with `iconv -f latin1 -t utf-8`"
