"""What does a kill cost? SIGKILL at random moments of training, for every trainer.

    python benchmarks/random_kills.py --n 200

Each run is killed at a random moment, six in ten again while they resume, and then completed. States are
saved every second instead of every 20 s, so that a run of a few seconds has several; the stated loss shrinks
in proportion, from 30 s to 1.5 s. A run is good when its files have the bytes of an undisturbed one, no kill
cost more than stated, and no process or shared memory was left behind.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before the libraries are loaded: a fork keeps no threads
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])

from tests.faults.random_kills import CASES, STATED_LOSS, Killer, Outcome  # noqa: E402

HEADINGS = ("trainer", "kills", "same bytes", "most lost", "left behind", "seconds of training")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n", type=int, default=20, help="kills in all")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as root:
        killer, started = Killer(Path(root), options.cases, options.seed), time.monotonic()
        while sum(o.kills for o in outcomes) < options.n and time.monotonic() - started < options.seconds:
            outcomes.append(killer.kill(options.cases[len(outcomes) % len(options.cases)]))
            if not outcomes[-1].is_good:
                print(f"run {len(outcomes)}: {outcomes[-1]}", flush=True)
    lines = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1))]
    for name in options.cases:
        lines.append(_row(name, [o for o in outcomes if o.case == name], killer.training_seconds[name]))
    print("\n".join("| " + " | ".join(line) + " |" for line in lines))
    n_bad = sum(not outcome.is_good for outcome in outcomes)
    print(f"{sum(o.kills for o in outcomes)} kills of {len(outcomes)} runs, {n_bad} not as they should be; "
          f"stated loss {STATED_LOSS} s; {time.monotonic() - started:.0f} s")  # fmt: skip
    return min(n_bad, 1)


def _row(name: str, outcomes: list[Outcome], seconds: float) -> tuple[str, ...]:
    most_seconds = max((s for o in outcomes for s in o.lost_seconds), default=0.0)
    most_models = max((m for o in outcomes for m in o.lost_models), default=0.0)
    lost = f"{most_seconds:.2f} s" if CASES[name].is_network else f"{most_models:.0f} finished models"
    n_left = sum("left behind" in problem for o in outcomes for problem in o.problems)
    n_same = sum(o.has_same_bytes for o in outcomes)
    return (
        name,
        str(sum(o.kills for o in outcomes)),
        f"{n_same} of {len(outcomes)}",
        lost,
        str(n_left),
        f"{seconds:.1f}",
    )


if __name__ == "__main__":
    sys.exit(main())
