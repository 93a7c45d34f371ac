"""What does decoding a parquet file in a child process first cost, and does it see what reading sees?

    python benchmarks/parquet_check.py --rows 10000000 --seconds 60 --seed 1

The rival is polars' own `read_parquet` of the same file, in a process of its own. Agreement is counted over
spoiled files, made from (seed, number), each read by a fork of a process that has polars loaded and unused.
"""

from __future__ import annotations

import argparse
import collections
import functools
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import polars as pl
from tests.fuzz.mutate import spoiled_bytes

from leakscope.disk import parquet_probe

_COLUMNS = 16
_ENDINGS = {0: "read", 1: "refused"}


class Cost(NamedTuple):
    """Of one child process."""

    wall_seconds: float
    cpu_seconds: float
    peak_megabytes: float


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=200_000, help=f"of {_COLUMNS} numbers and an id")
    arguments.add_argument("--seconds", type=float, default=10, help="of counting agreement")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        _print_agreement(path, options.seed, options.seconds)
        _print_costs(path, options.rows)


def _print_costs(path: Path, n_rows: int) -> None:
    reading = f"import polars; polars.read_parquet({str(path)!r})"
    for groups, size in (("row groups of 250,000", 250_000), ("one row group", n_rows)):
        _in_fork(functools.partial(_write_table, path, n_rows, size))
        probe = _cost([sys.executable, "-P", parquet_probe.__file__, str(path), str(1 << 45)])
        rival = _cost([sys.executable, "-c", reading])
        print(f"{n_rows:,} rows, {path.stat().st_size / 1e9:.2f} GB, {groups}:")
        for what, cost in (("the check", probe), ("reading", rival)):
            print(f"  {what}: {cost.wall_seconds:.2f} s ({cost.cpu_seconds:.2f} s of CPU), "
                  f"{cost.peak_megabytes:.0f} MB")  # fmt: skip
        print(f"  ratio of CPU time {probe.cpu_seconds / rival.cpu_seconds:.2f}", flush=True)


def _write_table(path: Path, n_rows: int, row_group_size: int) -> None:
    rng = np.random.default_rng(0)
    columns = {f"c{k}": rng.normal(size=n_rows) for k in range(_COLUMNS)}
    pl.DataFrame(columns).with_columns(
        id=pl.format("row-{}", pl.int_range(n_rows))
    ).write_parquet(path, row_group_size=row_group_size)  # fmt: skip


def _cost(command: list[str]) -> Cost:
    began = time.monotonic()
    started = subprocess.Popen(command)
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0, command
    return Cost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _print_agreement(path: Path, seed: int, seconds: float) -> None:
    endings: collections.Counter[tuple[str, str]] = collections.Counter()
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        rng = Random(f"{seed} {endings.total()}")
        assert _in_fork(functools.partial(_write_spoiled, path, rng)) == 0
        checked = _in_fork(lambda: parquet_probe.decode(str(path)))
        read = _in_fork(lambda: pl.read_parquet(path, glob=False))
        endings[_ENDINGS.get(checked, "ended the process"), _ENDINGS.get(read, "ended the process")] += 1
    summary = "; ".join(f"{n:,} {a} by the check, {b} by reading" for (a, b), n in endings.most_common())
    print(f"{endings.total():,} spoiled files, seed {seed}: {summary}", flush=True)


def _write_spoiled(path: Path, rng: Random) -> None:
    n, out = rng.choice((30, 300, 3000)), io.BytesIO()
    frame = pl.DataFrame({
        "number": [rng.choice((0.5, None, rng.random())) for _ in range(n)],
        "text": [rng.choice(("a", "bcd", None, "x" * 30, str(rng.random()))) for _ in range(n)],
        "count": [rng.randrange(100) for _ in range(n)],
        "kind": pl.Series([rng.choice("ab") for _ in range(n)], dtype=pl.Categorical),
        "flag": [rng.random() < 0.5 for _ in range(n)],
    })  # fmt: skip
    frame.write_parquet(
        out,
        compression=rng.choice(("zstd", "snappy", "uncompressed", "gzip", "lz4")),
        row_group_size=rng.choice((None, 100)),
        data_page_size=rng.choice((None, 64)),
    )
    if rng.random() < 0.5:
        path.write_bytes(spoiled_bytes(rng, out.getvalue()))
        return
    content = bytearray(out.getvalue())
    for _ in range(rng.choice((1, 2, 4))):
        content[rng.randrange(4, len(content))] = rng.choice((0, 255, rng.randrange(256)))
    path.write_bytes(bytes(content))


def _in_fork(work: Callable[[], object]) -> int:
    """The exit code of a fork that does it: 0, 1 where it raises, below 0 for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        work()
        os._exit(0)
    except BaseException:  # a panic of polars is no Exception
        os._exit(1)


if __name__ == "__main__":
    main()
