"""How long can leakscope be fed hostile input without a traceback? One kind of input, for some minutes.

    python benchmarks/fuzz.py --kind npz --minutes 10 --seed 1

Every input is made from (seed, number), which is printed where one fails, so that it can be made again with
`--first NUMBER --inputs 1`. Memory is bounded to some GiB above what the libraries take, so that a size which
a header merely declares cannot be had.
"""

from __future__ import annotations

import argparse
import collections
import logging
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fuzz import probes
from tests.fuzz.targets import KINDS, TooSlow, try_one

from leakscope.disk import parquet

_GIB_ABOVE = 3


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    arguments.add_argument("--minutes", type=float, default=0.1, help="for each kind")
    arguments.add_argument("--inputs", type=int, default=10**12, help="at most so many of each kind")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--first", type=int, default=0)
    options = arguments.parse_args()
    kinds = [*KINDS] if options.kind == "all" else [options.kind]
    warnings.simplefilter("error")  # what would be a line on the user's screen that nobody can act on
    logging.disable()  # readers say what they leave out, which is as it should be
    parquet._probed = probes.probed
    n_faults = 0
    for kind in kinds:
        n_faults += fuzz(kind, options.seed, options.first, options.inputs, 60 * options.minutes)
    return min(n_faults, 1)


def fuzz(kind: str, seed: int, first: int, n_inputs: int, seconds: float) -> int:
    """Number of inputs that ended otherwise than read or refused; each is printed."""
    endings: collections.Counter[str] = collections.Counter()
    faults: collections.Counter[str] = collections.Counter()
    started, number, slowest = time.monotonic(), first, 0.0
    while time.monotonic() - started < seconds and number < first + n_inputs:
        folder = Path(tempfile.mkdtemp(prefix="leakscope-fuzz-"))
        began = time.monotonic()
        try:
            endings[try_one(kind, Random(f"{kind} {seed} {number}"), folder)] += 1
        except (Exception, TooSlow) as fault:
            where = traceback.extract_tb(fault.__traceback__)[-1]
            faults[f"{type(fault).__name__} at {Path(where.filename).name}:{where.lineno}"] += 1
            if faults.total() <= 20:
                print(f"{kind}, seed {seed}, number {number}:\n{traceback.format_exc()}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        slowest, number = max(slowest, time.monotonic() - began), number + 1
        if number == first + 20:
            limit_memory()
    took = time.monotonic() - started
    summary = ", ".join(f"{n:,} {name}" for name, n in endings.most_common())
    print(f"{kind}: {number - first:,} inputs in {took:.0f} s (slowest {slowest:.1f} s): {summary}; "
          f"{faults.total()} faults {dict(faults) if faults else ''}", flush=True)  # fmt: skip
    return faults.total()


def limit_memory() -> None:
    """Address space: what is in use by now, all libraries being loaded, and a few GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _GIB_ABOVE * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    sys.exit(main())
