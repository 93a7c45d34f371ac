"""Ten million records and sixteen models, from a parquet file to a verdict: how much memory, how much time?

A file of made-up answers (two classes, sixteen models, a group) is written some rows at a time; then the
command line audits it, as a user would, in a process of its own. Time per record should not grow with the
number of records, and memory only by the vectors that docs/scale.md lists.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

_ROWS_AT_ONCE = 250_000
_REGIONS = np.array(["east", "north", "south"])


class Cost(NamedTuple):
    """Of one audit."""

    records: int
    file_gb: float
    seconds: float
    peak_gb: float  # resident memory of the process


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    arguments.add_argument("--models", type=int, default=16)
    arguments.add_argument("--folder", type=Path, help="where files and runs go; by default a temporary one")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        costs = [cost_of(n, options.models, Path(folder)) for n in options.records]
    print(f"{options.models} models, EB-LiRA and four other attacks, verdict, records.parquet and reports:")
    print("   records     file   seconds   a million   resident memory")
    for cost in costs:
        per_million = cost.seconds / cost.records * 1e6
        print(f"{cost.records:>10,} {cost.file_gb:>5.2f} GB {cost.seconds:>9.1f} {per_million:>11.1f} "
              f"{cost.peak_gb:>14.2f} GB")  # fmt: skip
    rates = [cost.seconds / cost.records for cost in costs]
    print(f"time per record, largest over smallest: {max(rates) / min(rates):.2f}x")


def cost_of(n_records: int, n_models: int, folder: Path) -> Cost:
    """Writes the file, audits it, and removes both."""
    file, run = folder / f"answers_{n_records}.parquet", folder / f"run_{n_records}"
    write_answers(file, n_records, n_models)
    started = time.perf_counter()
    leakscope = str(Path(sys.executable).with_name("leakscope"))
    command = [leakscope, "audit", "--predictions", str(file), "--out", str(run)]
    process = os.posix_spawn(leakscope, command, os.environ)
    _, status, used = os.wait4(process, 0)
    seconds = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"the audit of {n_records:,} records failed")
    n_written = pl.scan_parquet(run / "records.parquet").select(pl.len()).collect().item()
    assert n_written == n_records, f"records.parquet has {n_written:,} rows"
    cost = Cost(n_records, file.stat().st_size / 1e9, seconds, used.ru_maxrss * 1024 / 1e9)
    file.unlink()
    return cost


def write_answers(path: Path, n_records: int, n_models: int) -> None:
    """A parquet file as `leakscope audit --predictions` reads it."""

    def frames(*_: Any) -> Iterator[pl.DataFrame]:
        for start in range(0, n_records, _ROWS_AT_ONCE):
            yield answers(start, min(_ROWS_AT_ONCE, n_records - start), n_models)

    register_io_source(frames, schema=answers(0, 1, n_models).schema).sink_parquet(path)


def answers(start: int, n: int, n_models: int) -> pl.DataFrame:
    """Hard records are remembered: log-odds are lower when out, higher when in."""
    rng = np.random.default_rng([7, start])
    label, ease = rng.integers(0, 2, n), rng.normal(2, 2, n).astype(np.float32)
    in_mask = rng.random((n_models, n)).argsort(axis=0) < n_models // 2
    columns: dict[str, Any] = {
        "id": np.strings.add("person-", np.arange(start, start + n).astype("U8")),
        "label": label,
        "region": _REGIONS[rng.integers(0, len(_REGIONS), n)],
    }
    sign = np.where(label == 1, 0.5, -0.5).astype(np.float32)
    for model, members in enumerate(in_mask):
        log_odds = ease + rng.standard_normal(n, dtype=np.float32) + members * np.maximum(2 - ease, 0) * 0.6
        prefix = "" if model == 0 else f"reference_{model - 1}_"
        columns[f"{prefix}logit_0"], columns[f"{prefix}logit_1"] = -sign * log_odds, sign * log_odds
        columns["is_member" if model == 0 else f"{prefix}member"] = members
    return pl.DataFrame(
        {name: v.astype(np.float32) if v.dtype == np.float64 else v for name, v in columns.items()}
    )


if __name__ == "__main__":
    main()
