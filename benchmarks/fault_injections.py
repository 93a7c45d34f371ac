"""Does anything a machine does to a run change its verdict? Faults at random, then the same command again.

    python benchmarks/fault_injections.py --n 100

Every injection is drawn from (seed, number); `--seed SEED --first NUMBER --n 1` repeats one. A fault that
came when the run was over already has missed, and is drawn again: all that are counted have struck. A run has
recovered when the same command, or what its message said to do and then the same command, ends well; its
verdict is wrong when results.json has other bytes than undisturbed; something is silently lost when any other
file has, when a file is left behind, or when `verify` does not notice damage or does not agree.
"""

from __future__ import annotations

import argparse
import collections
import os
import secrets
import sys
import tempfile
import time
import warnings
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before the libraries are loaded: a fork keeps no threads
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.faults.cases import prepared  # noqa: E402
from tests.faults.injections import Outcome, inject  # noqa: E402
from tests.faults.kinds import KINDS, PLACES, why_not  # noqa: E402
from tests.faults.lost_nodes import CLUSTER  # noqa: E402

HEADINGS = (
    "fault",
    "injections",
    "missed before",
    "recoveries",
    "by the printed remedy",
    "wrong verdicts",
    "silent losses",
)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n", type=int, default=20)
    arguments.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**32), help="by default a fresh one"
    )
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")  # of the libraries, about runs as tiny as these
    kinds = _possible(options.kinds)
    print(f"seed {options.seed}, numbers {options.first} to {options.first + options.n - 1}", flush=True)
    started = time.monotonic()
    outcomes = _outcomes(kinds, options.seed, range(options.first, options.first + options.n))
    print(table(outcomes))
    n_bad = sum(not outcome.is_good for outcome in outcomes)
    print(f"seed {options.seed}: {time.monotonic() - started:.0f} s, "
          f"{n_bad} of {options.n} not as they should be")  # fmt: skip
    return min(n_bad, 1)


def _possible(kinds: list[str]) -> list[str]:
    """The kinds that can be tried here; those left out are printed."""
    reasons = {kind: why_not(kind) for kind in kinds}
    for kind, reason in reasons.items():
        if reason is not None:
            print(f"left out: {kind} ({reason})")
    return [kind for kind, reason in reasons.items() if reason is None]


def _outcomes(kinds: list[str], seed: int, numbers: range) -> list[Outcome]:
    outcomes = []
    with tempfile.TemporaryDirectory() as root:
        cases = prepared(Path(root) / "expected", {PLACES.get(kind, "here") for kind in kinds})
        try:
            for number in numbers:
                outcomes.append(inject(number, seed, cases, Path(root), kinds))
                if not outcomes[-1].is_good:
                    print(f"seed {seed}, number {number}: {outcomes[-1]}", flush=True)
        finally:
            CLUSTER.close()
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """One line a kind of fault, and their sum."""
    by_kind: dict[str, list[Outcome]] = collections.defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.kind].append(outcome)
    rows = [_row(kind, by_kind[kind]) for kind in sorted(by_kind, key=str.lower)]
    lines = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1)), *rows, _row("all", outcomes)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(kind: str, outcomes: list[Outcome]) -> tuple[str, ...]:
    recovered = [o for o in outcomes if o.recovered]
    counts = (
        sum(o.struck for o in outcomes),
        sum(o.n_missed for o in outcomes),
        len(recovered),
        sum(o.by_remedy for o in recovered),
        sum(not o.same_verdict for o in recovered),
        sum(not o.nothing_lost or bool(o.problems) for o in recovered if o.same_verdict),
    )
    return (kind, *map(str, counts))


if __name__ == "__main__":
    sys.exit(main())
