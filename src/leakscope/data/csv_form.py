"""The form of a csv file: separator, header, encoding, empty lines, leading zeros and rows that are too long.

polars guesses none of the first three, takes an empty line for a record and 01067 for 1067, and does not say
which row is wrong.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import gt, lt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.data.text_values import CODE
from leakscope.disk.storage import open_regular
from leakscope.errors import InputError, first_line

if TYPE_CHECKING:
    import polars as pl

_SEPARATORS = (",", ";", "\t", "|")
_USUAL_HEADER, _LONGEST_HEADER = 1 << 16, 1 << 24  # bytes
_AT_ONCE, _IN_CACHE = 1 << 22, 1 << 17
_EMPTY_ROW = re.compile(rb'\n[ \t\r,;|"]*\n')
_CODE_IN_LINE = re.compile(rb'[,;\t|"\n][+-]?0\d')
_ROW = re.compile(r"(?:(?<=first: )|(?<=is both )|(?<= and ))row-(\d+)\b")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def scan_csv(path: Path, **options: Any) -> pl.LazyFrame:
    """A csv file as polars reads it with these options, but for two things.

    Rows that have no value at all are left out. A column with leading zeros is text: as numbers, 01 and 1 are
    the same.

    Raises:
        InputError: see `csv_separator`.
    """
    import polars as pl

    form: dict[str, Any] = {"separator": csv_separator(path), "glob": False}
    scan = pl.scan_csv(path, **form, **options)
    if codes := _columns_of_codes(path, scan, form):
        form["ignore_errors"] = options.get("ignore_errors", False)
        scan = pl.scan_csv(path, **form, schema=scan.collect_schema() | dict.fromkeys(codes, pl.String))
    return scan.filter(~pl.all_horizontal(pl.all().is_null())) if _has_empty_rows(path) else scan


def _columns_of_codes(path: Path, scan: pl.LazyFrame, form: dict[str, Any]) -> list[str]:
    """The columns that were taken for numbers although a value has leading zeros, such as 01067."""
    import polars as pl

    schema = scan.collect_schema()
    numeric = [name for name, dtype in schema.items() if dtype.is_numeric()]
    # Few files hold any; the others need not be parsed once more.
    if not numeric or not _may_hold_codes(path):
        return []
    texts = pl.scan_csv(path, **form, schema=dict.fromkeys(schema, pl.String)).select(numeric)
    found = texts.select(pl.all().str.contains(f"^{CODE.pattern}$").any()).collect(engine="streaming")
    return [name for name in numeric if found[name].item()]


def csv_problem(path: Path, error: Exception) -> str:
    """Why polars could not read a file, in words that say where and what to do."""
    text = first_line(error)
    if "empty CSV" in text:
        return "is empty; give a header and one record per line"
    row = _odd_row(path, gt) if "more fields" in text else ""
    if not row:
        return f"cannot be read as {path.suffix[1:]}: {text}"
    return f"{row}; quote texts and numbers that contain {csv_separator(path)!r}, or remove the extra field"


def refuse_short_rows(path: Path) -> None:
    """Refuses a row with fewer fields than the header: it is not known which are missing.

    Raises:
        InputError: names the first such line; polars would leave its last columns without values.
    """
    row = _odd_row(path, lt)
    if row:
        raise InputError(f"{row}; add the missing fields, or remove that line")


@contextmanager
def naming_lines(path: Path) -> Iterator[None]:
    """Has errors about rows of a csv file name its lines; they count rows from 0, without the header."""
    try:
        yield
    except InputError as error:
        if path.suffix.lower() != ".csv" or not (rows := {int(row) for row in _ROW.findall(str(error))}):
            raise
        lines = _lines_of(path, rows)
        named = _ROW.sub(lambda row: lines.get(int(row[1]), row[0]), str(error))
        raise InputError(named.replace("is both line", "is in both line")) from error


def _lines_of(path: Path, wanted: set[int]) -> dict[int, str]:
    """Row -> the line where it begins; rows without any value do not count."""
    lines: dict[int, str] = {}
    with open_regular(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        rows, row, begins = csv.reader(text, delimiter=csv_separator(path)), -1, 1
        try:
            for fields in rows:  # the header is row -1
                if any(field.strip() for field in fields):
                    if row in wanted:
                        lines[row] = f"line {begins:,}"
                    row += 1
                begins = rows.line_num + 1
                if len(lines) == len(wanted):
                    break
        except csv.Error:  # a field that is longer than Python allows
            return lines
    return lines


def refuse_utf_16(start: bytes) -> None:
    """Refuses what Excel saves as "Unicode text", by the first bytes of a file."""
    if start.startswith(_UTF_16):
        raise InputError("is UTF-16 text; save it as UTF-8, for example with `iconv -f utf-16 -t utf-8`")


def csv_separator(path: Path) -> str:
    """The character that separates the columns: the one that divides the header into most.

    Raises:
        InputError: two columns have the same name, or the file is not UTF-8; says which and what to do.
    """
    with open_regular(path) as file:
        start = file.read(_USUAL_HEADER)
        rest = b"" if b"\n" in start else file.read(_LONGEST_HEADER)
    refuse_utf_16(start)
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


def _has_empty_rows(path: Path) -> bool:
    """Whether a line may hold nothing but separators; a text in quotes can look so, which does no harm."""
    return any(_EMPTY_ROW.search(lines) for lines in _whole_lines(path))


def _may_hold_codes(path: Path) -> bool:
    """Whether a field may begin with 0 and another digit; a part of a text can, which does no harm."""
    return any(_has_zero_before_digit(lines) and _CODE_IN_LINE.search(lines) for lines in _whole_lines(path))


def _has_zero_before_digit(lines: bytes) -> bool:
    """Whether the first digit of a number is 0 and another follows: far faster than a regular expression."""
    for at in range(0, len(lines), _IN_CACHE):
        some = np.frombuffer(lines[at : at + _IN_CACHE + 2], np.uint8)
        is_digit = (some - ord("0")) < 10  # what is smaller than 0 wraps around
        begins = ~is_digit[:-2] & (some[:-2] != ord("."))
        if (begins & (some[1:-1] == ord("0")) & is_digit[2:]).any():
            return True
    return False


def _whole_lines(path: Path) -> Iterator[bytes]:
    """A file in parts that begin and end at the end of a line."""
    with open_regular(path) as file:
        rest = b""
        while part := file.read(_AT_ONCE):
            part = rest + part
            yield part
            rest = part[max(part.rfind(b"\n"), 0) :]
    if rest.strip(b"\n"):
        yield rest + b"\n"


def _odd_row(path: Path, is_odd: Callable[[int, int], bool]) -> str:
    """The first row whose number of fields, beside that of the header, is odd; empty where there is none."""
    with open_regular(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        rows = csv.reader(text, delimiter=csv_separator(path))
        try:
            n_names = len(next(rows, []))
            for row in rows:
                if is_odd(len(row), n_names) and any(field.strip() for field in row):
                    n_fields = f"{len(row)} field{'s' if len(row) > 1 else ''}"
                    return f"has {n_fields} in line {rows.line_num:,}, where the header has {n_names}"
        except csv.Error:  # a field that is longer than Python allows
            return ""
    return ""
