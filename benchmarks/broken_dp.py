"""How reliably are broken implementations of DP-SGD refuted, and a correct one not?

Runs the programs of examples/broken_dp with several seeds each, on one thread. With --write, the table goes
to examples/broken_dp/README.md and docs/dp_claims.md.

    python benchmarks/broken_dp.py --write
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from leakscope.dp.verdict import ClaimVerdict

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "examples" / "broken_dp"
PAGES = (PROGRAMS / "README.md", ROOT / "docs" / "dp_claims.md")
BEGIN, END = "<!-- measured: broken_dp -->", "<!-- end -->"
CONTROL = "correct"
ANY_TRADE_OFF = ("Steinke", "Clopper-Pearson")  # in the names of methods that assume no shape
MISTAKES = {
    "clipping_by_batch": "clips the gradient of the batch, not of each record",
    "unclipped_layer": "leaves one layer out of the clipping",
    "noise_without_clip": "does not scale noise by the clipping norm",
    "noise_once_per_epoch": "adds noise in one step per epoch",
    "noise_divided_by_parts": "divides noise by the number of accumulated parts, in each part",
    "smaller_sampling_rate": "gives the accountant a smaller sampling rate",
    "shuffling_as_poisson": "shuffles, and accounts for Poisson sampling",
    "batch_norm": "uses batch norm",
    "fitted_preprocessing": "fits a scaler on all records",
    CONTROL: "none",
}
HEADS = (
    "program",
    "mistake",
    "claimed epsilon",
    "bound",
    "refuted",
    "bound for any trade-off",
    "refuted by it",
    "trainings",
    "seconds",
)
HEAD = f"| {' | '.join(HEADS)} |\n|---|---|{'---:|' * (len(HEADS) - 2)}"


@dataclass(frozen=True)
class Audited:
    """One program with one seed.

    Attributes:
        verdict: on its claim.
        any_trade_off: the highest bound that does not assume a Gaussian shape.
        seconds: CPU time of training and test.
    """

    verdict: ClaimVerdict
    any_trade_off: float
    seconds: float


def audited(program: str, seed: int) -> Audited:
    module = importlib.import_module(program)
    started = time.process_time()
    verdict = module.audit(seed)
    seconds = time.process_time() - started
    any_trade_off = max(
        e.epsilon for e in verdict.evidence if any(name in e.method for name in ANY_TRADE_OFF)
    )
    return Audited(verdict, any_trade_off, seconds)


def line_of(program: str, results: list[Audited]) -> str:
    first, n = results[0].verdict, len(results)
    n_refuted = sum(r.verdict.status == "refuted" for r in results)
    n_by_any = sum(r.any_trade_off > r.verdict.epsilon for r in results)
    cells = [
        f"`{program}.py`",
        MISTAKES[program],
        f"{first.epsilon:.2f}",
        f"{statistics.median(r.verdict.evidence[0].epsilon for r in results):.2f}",
        f"{n_refuted} of {n}",
        f"{statistics.median(r.any_trade_off for r in results):.2f}",
        f"{n_by_any} of {n}",
        f"{first.evidence[0].runs:,}",
        f"{statistics.median(r.seconds for r in results):.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def write_lines(lines: dict[str, str]) -> None:
    """Puts the lines of these programs into the tables; lines of other programs stay as they are."""
    for page in PAGES:
        before, rest = page.read_text(encoding="utf-8").split(BEGIN)
        written, after = rest.split(END, 1)
        old = {line.split("`")[1].removesuffix(".py"): line for line in written.splitlines() if "`" in line}
        table = "\n".join([HEAD, *((old | lines)[program] for program in MISTAKES if program in old | lines)])
        page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--seeds", type=int, default=10, help="of each broken program")
    arguments.add_argument("--control-seeds", type=int, default=40, help="of the correct program")
    arguments.add_argument("--programs", nargs="*", choices=list(MISTAKES), default=list(MISTAKES))
    arguments.add_argument("--write", action="store_true", help="write the lines to the tables of the docs")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    sys.path.insert(0, str(PROGRAMS))
    print(HEAD)
    lines = {}
    for program in options.programs:
        n_seeds = options.control_seeds if program == CONTROL else options.seeds
        lines[program] = line_of(program, [audited(program, seed) for seed in range(n_seeds)])
        print(lines[program], flush=True)
    if options.write:
        write_lines(lines)


if __name__ == "__main__":
    main()
