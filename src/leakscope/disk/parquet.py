"""Checks in another process that a parquet file is safe to read, because reading may end the process.

polars trusts the sizes that a page declares: a damaged file of 1,452 bytes makes it request 2^61 bytes, and
when it does not get them it ends the whole process, with no exception to catch. Other damage makes it panic,
with lines of its own on the screen. So every value is decoded once in a child process with limited memory and
time, and only files that it could read are read here. This costs a fifth of a second and one pass over the
file, block by block.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leakscope.disk import parquet_probe
from leakscope.disk.scratch import machine_memory
from leakscope.errors import CorruptBankError, first_line

if TYPE_CHECKING:
    import polars as pl

_MAGIC = b"PAR1"
_LEAST_BYTES = 12  # the magic at both ends, and the footer's length
_LIBRARIES = 2 << 30  # bytes of address space before anything is read: polars, and the stacks of its threads
_LEAST_SECONDS = 60
_BYTES_PER_SECOND = 1 << 20  # hundreds of times slower than a disk of today
_LONGEST_REASON = 300
_ROW, _ORDER = "leakscope:row", "leakscope:order"


class ParquetFileError(ValueError):
    """The file cannot be read as parquet; says why."""


_known_readable: set[tuple[Path, int, int, int]] = set()


def check_parquet(path: Path) -> None:
    """Raises ParquetFileError unless polars can decode every value of the file.

    A file is decoded once in a process, for as long as it stays as it is.
    """
    try:
        version = (_, _, n_bytes, _) = _version(path)
        if version in _known_readable:
            return
        _check_ends(path)
    except OSError as error:
        raise ParquetFileError(f"cannot be read ({error.strerror or type(error).__name__})") from error
    _decode_elsewhere(path.absolute(), n_bytes)
    _known_readable.add(version)


def note_written(path: Path) -> None:
    """Marks a file that this process has just written: it need not be checked when a report reads it."""
    _known_readable.add(_version(path))


def read_stored(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """A parquet file that a run has written, or its columns of these names.

    Raises:
        CorruptBankError: it cannot be read, or has no such columns; so do the functions below.
    """
    with _stored(path) as table:
        return (table if columns is None else table.select(columns)).collect()


def read_stored_rows(path: Path, rows: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Some rows, in this order, of a parquet file that a run has written and that may not fit in memory."""
    import polars as pl

    with _stored(path) as table:
        wanted = pl.LazyFrame({_ROW: rows.astype(np.uint32), _ORDER: np.arange(len(rows))})
        selected = table.with_row_index(_ROW).join(wanted, on=_ROW, how="inner").sort(_ORDER)
        return selected.drop(_ROW, _ORDER).collect(engine="streaming")


def read_stored_block(path: Path, rows: slice) -> pl.DataFrame:
    """Consecutive rows of a parquet file that a run has written and that may not fit in memory."""
    with _stored(path) as table:
        return table.slice(rows.start, rows.stop - rows.start).collect()


def stored_columns(path: Path) -> list[str]:
    """Names of the columns of a parquet file that a run has written."""
    with _stored(path) as table:
        return table.collect_schema().names()


def stored_height(path: Path) -> int:
    """Number of rows of a parquet file that a run has written."""
    import polars as pl

    with _stored(path) as table:
        return int(table.select(pl.len()).collect().item())


@contextmanager
def _stored(path: Path) -> Iterator[pl.LazyFrame]:
    """The table, nothing of which is read yet."""
    import polars as pl

    with as_corrupt_table_error(path):
        check_parquet(path)
        yield pl.scan_parquet(path, glob=False, hive_partitioning=False)


@contextmanager
def as_corrupt_table_error(path: Path) -> Iterator[None]:
    """Turns errors of polars about a file that a run has written into one line."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, ParquetFileError) as error:
        raise CorruptBankError(
            f"{path} is damaged ({first_line(error)}); run the same command again to write it"
        ) from error


def _check_ends(path: Path) -> None:
    """Refuses truncated files and files of other kinds without starting a process."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(0, size - 8))
        end = file.read(8)
    if size < _LEAST_BYTES or start != _MAGIC or end[4:] != _MAGIC:
        raise ParquetFileError("is not a parquet file, or is cut off (it does not begin and end with PAR1)")
    if int.from_bytes(end[:4], "little") > size - _LEAST_BYTES:
        raise ParquetFileError("has a footer that is longer than the file")


def _version(path: Path) -> tuple[Path, int, int, int]:
    """What tells one state of a file from another."""
    if not path.is_file():
        raise ParquetFileError("is not a file")
    facts = path.stat()
    return path.absolute(), facts.st_ino, facts.st_size, facts.st_mtime_ns


def _decode_elsewhere(path: Path, n_bytes: int) -> None:
    seconds = _LEAST_SECONDS + n_bytes / _BYTES_PER_SECOND
    most_bytes = _LIBRARIES + n_bytes + machine_memory()  # polars maps the file into memory
    try:
        done = _probed(path, most_bytes, seconds)
    except subprocess.TimeoutExpired as error:
        raise ParquetFileError(f"is not decoded after {seconds:,.0f} seconds") from error
    if done.returncode == 0:
        return
    if done.returncode == parquet_probe.REFUSED and done.stdout:
        raise ParquetFileError(_shown(done.stdout))
    raise ParquetFileError(f"polars cannot decode it ({_death_message(done)})")


def _probed(path: Path, most_bytes: int, seconds: float) -> subprocess.CompletedProcess[bytes]:
    # -P: this package's own folder is no place to import from, it has a types.py.
    command = [sys.executable, "-P", parquet_probe.__file__, str(path), str(most_bytes)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)


def _death_message(done: subprocess.CompletedProcess[bytes]) -> str:
    """Why the child ended: the first line that it wrote, or the last one of a traceback, or its signal."""
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith(b"<jemalloc>")]
    if lines:
        return _shown(lines[-1] if lines[0].startswith(b"Traceback") else lines[0])
    if done.returncode < 0:
        return f"it was ended by signal {-done.returncode}, as where memory runs out"
    return f"exit code {done.returncode}"


def _shown(message: bytes) -> str:
    return message.decode("utf-8", "replace").strip()[:_LONGEST_REASON]
