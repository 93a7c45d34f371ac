"""Does anything a machine does to a run change its verdict? Faults at random, then the same command again.

    python benchmarks/fault_injections.py --n 100 --seed 1

Every injection is drawn from (seed, number); `--first NUMBER --n 1` repeats one. A run has recovered when the
same command, or what its message said to do and then the same command, ends well; its verdict is wrong when
results.json has other bytes than undisturbed; something is silently lost when any other file has, when a file
is left behind, or when `verify` does not notice damage or does not agree. A fault that came when the run was
over already has not struck.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before the libraries are loaded: a fork keeps no threads
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.faults.cases import CASES, prepared  # noqa: E402
from tests.faults.injections import Outcome, inject  # noqa: E402
from tests.faults.kinds import usable_kinds  # noqa: E402

_WORKERS = "worker killed"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--no-workers", action="store_true", help="leave out the slow case of processes")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")  # of the libraries, about runs as tiny as these
    kinds = [kind for kind in usable_kinds() if not (options.no_workers and kind == _WORKERS)]
    names = tuple(case.name for case in CASES if not (options.no_workers and case.uses_workers))
    started, outcomes = time.monotonic(), []
    with tempfile.TemporaryDirectory() as root:
        cases = prepared(Path(root) / "expected", names)
        for number in range(options.first, options.first + options.n):
            outcome = inject(number, options.seed, cases, Path(root), kinds)
            outcomes.append(outcome)
            if not outcome.is_good:
                print(f"seed {options.seed}, number {number}: {outcome}", flush=True)
    print(table(outcomes))
    n_bad = sum(not outcome.is_good for outcome in outcomes)
    print(f"seed {options.seed}, numbers {options.first} to {options.first + options.n - 1}, "
          f"{time.monotonic() - started:.0f} s: {n_bad} of {options.n} not as they should be")  # fmt: skip
    return min(n_bad, 1)


def table(outcomes: list[Outcome]) -> str:
    """One line a kind of fault, and their sum."""
    by_kind: dict[str, list[Outcome]] = collections.defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.kind].append(outcome)
    rows = [_row(kind, by_kind[kind]) for kind in sorted(by_kind)]
    headings = (
        "fault",
        "injections",
        "struck",
        "recoveries",
        "by a remedy told",
        "wrong verdicts",
        "silent losses",
    )
    lines = [headings, ("---",) * len(headings), *rows, _row("all", outcomes)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(kind: str, outcomes: list[Outcome]) -> tuple[str, ...]:
    recovered = [o for o in outcomes if o.recovered]
    counts = (
        len(outcomes),
        sum(o.struck for o in outcomes),
        len(recovered),
        sum(o.by_remedy for o in recovered),
        sum(not o.same_verdict for o in recovered),
        sum(not o.nothing_lost or bool(o.problems) for o in recovered if o.same_verdict),
    )
    return (kind, *map(str, counts))


if __name__ == "__main__":
    sys.exit(main())
