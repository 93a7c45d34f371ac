"""When do records become exposed, on a bank of really trained networks? Two attacks, with noise floors.

Leave-one-out decisions at log ratio > 0, every figure of the dynamics at every checkpoint, and beside
each what it is with memberships permuted over models; standard errors from a jackknife over groups of
models. LiRA has one variance a side; EB-LiRA has fewer permutations and no jackknife unless asked,
since each repeats the whole attack at every checkpoint.

    python benchmarks/dynamics_on_a_bank.py --bank FOLDER

The folder holds design.npy (bool, models x records), labels.npy and log_odds_epochNNN.npy files.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.jackknife import Replicates, jackknife
from leakscope.dynamics.metrics import Arrays, metrics
from leakscope.dynamics.noise_floor import noise_floor
from leakscope.dynamics.plane import trajectories
from leakscope.types import Design, Signals

BESIDE = Path(__file__).parents[2] / "shared" / "banks" / "cifar10-wrn28-2"
SERIES = {
    "mean FPR": lambda m: m.centre[:, 0],
    "mean TPR": lambda m: m.centre[:, 1],
    "mean advantage": lambda m: m.advantage,
    "share vulnerable": lambda m: m.vulnerable,
    "entropy, bits": lambda m: m.entropy,
    "early recall": lambda m: m.recall,
    "early precision": lambda m: m.precision,
    "speed, % of side/epoch": lambda m: m.speed,
    "entry probability": lambda m: m.entry,
    "entry per epoch": lambda m: m.entry_per_epoch,
}
SCALARS = (
    "net_displacement",
    "path_length",
    "entropy_change",
    "peak_entry",
    "peak_entry_per_epoch",
    "first_epoch",
)


def load_bank(folder: Path) -> tuple[Signals, Design]:
    """The bank's log-odds at all checkpoints, (models, checkpoints, records), and its design."""
    files = sorted(folder.glob("log_odds_epoch*.npy"))
    log_odds = np.stack([np.load(file) for file in files], axis=1).astype(np.float32)
    epochs = tuple(int(file.stem.removeprefix("log_odds_epoch")) for file in files)
    labels = np.load(folder / "labels.npy").astype(np.int64)
    return Signals({"log_odds": log_odds}, epochs, labels), Design(np.load(folder / "design.npy"))


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--bank", type=Path, default=BESIDE)
    arguments.add_argument("--permutations", type=int, default=5, help="of the design, for LiRA")
    arguments.add_argument("--groups", type=int, default=11, help="of models, for LiRA's jackknife")
    arguments.add_argument("--eb-permutations", type=int, default=1, help="for EB-LiRA")
    arguments.add_argument("--eb-groups", type=int, default=0, help="for EB-LiRA; 0: no jackknife")
    options = arguments.parse_args()
    if not options.bank.is_dir():
        print(f"skipped: no bank at {options.bank}; give one with --bank")
        return
    signals, design = load_bank(options.bank)
    n_models, n_records = design.in_mask.shape
    print(f"{options.bank.name}: {n_models} models, {n_records:,} records, epochs {signals.epochs}")
    show("LiRA, fixed variance", Lira(), signals, design, options.permutations, options.groups)
    show("EB-LiRA", EbLira(), signals, design, options.eb_permutations, options.eb_groups)


def show(
    title: str, attack: Attack, signals: Signals, design: Design, n_permutations: int, n_groups: int
) -> None:
    """One attack's table: each figure, its standard error, its noise floor."""
    started = time.perf_counter()
    found = metrics(trajectories(decide(attack, signals, design), design.in_mask))
    seconds = time.perf_counter() - started
    floor = noise_floor(attack, signals, design, seed=0, n_permutations=n_permutations).mean
    error = jackknife(attack, signals, design, n_groups=n_groups) if n_groups else None
    total = time.perf_counter() - started
    print(f"\n{title}, log ratio > 0 (figures {seconds:.1f} s; with floor and jackknife {total:.0f} s)")
    print(f"{'':24s}" + "".join(f"{f'epoch {epoch}':>21s}" for epoch in signals.epochs))
    for name, series in SERIES.items():
        values, at_floor = series(found), series(floor)
        errors = None if error is None else series(error.standard_error)
        gap = " " * 21 * (len(signals.epochs) - len(values))
        print(f"{name:24s}{gap}" + "".join(cell(values, errors, at_floor, k) for k in range(len(values))))
    print_scalars(found, error, floor)


def cell(values: np.ndarray, errors: np.ndarray | None, floor: np.ndarray, k: int) -> str:
    """ "value±error|floor", 21 characters."""
    error = "" if errors is None else f"±{errors[k]:.3f}"
    return f"{f'{values[k]:.3f}{error}|{floor[k]:.3f}':>21s}"


def print_scalars(found: Arrays, error: Replicates | None, floor: Arrays) -> None:
    for name in SCALARS:
        spread = "" if error is None else f" ± {float(getattr(error.standard_error, name)):.3f}"
        print(
            f"{name:24s}{float(getattr(found, name)):9.3f}{spread}   floor {float(getattr(floor, name)):.3f}"
        )
    if error is not None:
        a = error.advantage
        print(
            f"advantage at the end, {a.method}: {a.mean:.4f} ± {a.standard_error:.4f}, coefficient of "
            f"variation {a.coefficient:.3f}; of a single vulnerable record (median) "
            f"{a.vulnerable_coefficient:.3f}"
        )


if __name__ == "__main__":
    main()
