"""Decodes every page of one parquet file and reports the outcome; a script, see `leakscope.disk.parquet`.

    python -P parquet_probe.py FILE MOST_BYTES

Exit code 0: it can be read. 2: it cannot, and standard output says why. Anything else: polars ended the
process. Only polars is imported, so that the script takes a fifth of a second.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

REFUSED = 2
_VALUES_AT_ONCE = 1 << 25
_KILLED_FIRST = "1000"  # where memory runs out without a limit, the system ends this process first


def limit_memory(most_bytes: int) -> None:
    """Limits the address space to `most_bytes` and forbids core files, where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        lowest = min(limit for limit in (soft, hard, most_bytes) if limit != resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST)


def decode(path: str) -> None:
    """Reads every value: to count missing values, polars decodes all of a page.

    polars holds the requested columns of a few row groups in memory, or of the only one, as some programs
    write it. So a long table is decoded a few columns at a time.
    """
    import polars as pl

    # Not collect_batches: it drops errors, and a damaged file would look whole (polars 2.1).
    scan = pl.scan_parquet(path, glob=False, hive_partitioning=False, low_memory=True, cache=False)
    n_columns, n_rows = len(scan.collect_schema()), int(scan.select(pl.len()).collect().item())
    at_once = max(1, _VALUES_AT_ONCE // max(1, n_rows))
    for first in range(0, n_columns, at_once):
        some = pl.nth(range(first, min(first + at_once, n_columns)))
        scan.select(some.null_count()).collect(engine="streaming")


def main() -> None:
    """The file and the bytes are the arguments."""
    path, most_bytes = sys.argv[1:]
    limit_memory(int(most_bytes))
    try:
        decode(path)
    except BaseException as error:  # a panic of polars is no Exception
        said = str(error).strip().splitlines() or [type(error).__name__]
        sys.stdout.buffer.write(said[0].encode("utf-8", "replace"))
        sys.stdout.flush()
        os._exit(REFUSED)  # after a panic its threads may not come to an end


if __name__ == "__main__":
    main()
