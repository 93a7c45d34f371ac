"""How many reference models does each attack need? On a bank of really trained networks.

For each target and each number of references, references are drawn at random several times; every attack
sees the same draws. AUC and TPR at 0.1% FPR over all records, and over the records with at least two
references on each side, which is all that plain LiRA can handle. Intervals are t intervals over targets
of the mean over draws. RMIA gets the best of its settings in hindsight, at each size.

    python benchmarks/attacks_on_a_bank.py --bank FOLDER

The folder holds design.npy (bool, models x records), labels.npy and log_odds_epochNNN.npy files.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from leakscope.attacks.base import Attack
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.attacks.rmia import Rmia
from leakscope.stats.intervals import mean_over_targets
from leakscope.stats.roc_summary import roc_summary
from leakscope.types import Design, Signals

BESIDE = Path(__file__).parents[2] / "shared" / "banks" / "cifar10-wrn28-2"
FPR = 0.001

ATTACKS: dict[str, list[Attack]] = {
    "LiRA, record variance": [Lira(variance="record")],
    "LiRA, fixed variance": [Lira()],
    "LiRA, offline, record": [Lira(online=False, variance="record")],
    "LiRA, offline, fixed": [Lira(online=False)],
    "RMIA, online, best of 4": [Rmia(gamma=g, temperature=t) for g in (1.0, 2.0) for t in (1.0, 2.0)],
    "RMIA, offline, best of 8": [
        Rmia(online=False, gamma=g, temperature=t, offline_a=a)
        for g in (1.0, 2.0)
        for t in (1.0, 2.0)
        for a in (0.3, 1.0)
    ],
    "EB-LiRA": [EbLira()],
}


def draws(n_models: int, size: int, n_draws: int, every: int) -> Iterator[tuple[int, np.ndarray]]:
    """(target, models with the target first) for every target and draw."""
    rng = np.random.default_rng(size)
    for target in range(0, n_models, every):
        others = np.delete(np.arange(n_models), target)
        for _ in range(n_draws if size < len(others) else 1):
            yield target, np.concatenate([[target], rng.choice(others, size, replace=False)])


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--bank", type=Path, default=BESIDE)
    arguments.add_argument("--sizes", default="4,8,16,32,43")
    arguments.add_argument("--draws", type=int, default=5)
    arguments.add_argument("--every", type=int, default=4, help="every which model is a target")
    arguments.add_argument("--attack", action="append", choices=list(ATTACKS), help="may be repeated; all")
    options = arguments.parse_args()
    if not options.bank.is_dir():
        print(f"skipped: no bank at {options.bank}; give one with --bank")
        return
    in_mask = np.load(options.bank / "design.npy")
    last = sorted(options.bank.glob("log_odds_epoch*.npy"))[-1]
    log_odds = np.load(last).astype(np.float32)
    labels = np.load(options.bank / "labels.npy").astype(np.int64)
    print(f"{options.bank.name}, {last.stem}: {in_mask.shape[0]} models, {in_mask.shape[1]:,} records")
    print(f"references  {'attack':25s}  {'all records: AUC, TPR@0.1%':34s}  two a side: AUC, TPR@0.1%")
    for size in map(int, options.sizes.split(",")):
        for name in options.attack or ATTACKS:
            started = time.perf_counter()
            found = [_figures(a, in_mask, log_odds, labels, size, options) for a in ATTACKS[name]]
            best = max(found, key=lambda figures: np.nanmean(figures[:, 0]))
            cells = "  ".join(_cell(best[:, k]) for k in range(4))
            seconds = time.perf_counter() - started
            print(f"{size:10d}  {name:25s}  {cells}  ({seconds:.0f} s)", flush=True)


def _figures(attack: Attack, in_mask, log_odds, labels, size: int, options) -> np.ndarray:  # type: ignore[no-untyped-def]
    """(targets, 4): AUC and TPR over all records, then over those with two references a side."""
    by_target: dict[int, list[list[float]]] = {}
    for target, models in draws(len(in_mask), size, options.draws, options.every):
        mask = in_mask[models]
        signals = Signals({"log_odds": log_odds[models][:, None]}, (1,), labels)
        scores = attack(signals, Design(mask), np.array([0])).values[0]
        counted = (mask[1:].sum(axis=0) > 1) & ((~mask[1:]).sum(axis=0) > 1)
        row = []
        for used in (slice(None), counted):
            found = roc_summary(scores[used], mask[0][used], (FPR,))
            row += [found.auc, found.points[0].tpr]
        by_target.setdefault(target, []).append(row)
    return np.array([np.mean(rows, axis=0) for rows in by_target.values()])


def _cell(values: np.ndarray) -> str:
    found = mean_over_targets(values)
    return f"{found.mean:.4f} ± {(found.interval.high - found.interval.low) / 2:.4f}"


if __name__ == "__main__":
    main()
