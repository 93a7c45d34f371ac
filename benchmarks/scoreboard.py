"""The scoreboard: every attack x number of references, on banks of really trained networks.

    python benchmarks/scoreboard.py --bank FOLDER --bank FOLDER

computes the cells that docs/results/scoreboard/ lacks, one file per bank, and writes docs/scoreboard.md.
Without `--bank` it writes the page again. A run that is stopped resumes where it was.

The targets are spread over the models of a bank. Each target has its own random references for each number of
them, the same for all attacks; where the models of a bank come in complementary pairs, references are drawn
as pairs. AUC and TPR are over all records of the bank. RMIA gets the best of its settings in hindsight, for
each cell and each figure.

A folder holds design.npy (bool, models x records), labels.npy and log_odds_epochNNN.npy files.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

import scoreboard_page
from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.attacks import Base, Bavaria, Calibrated, EbLira, Lira, LossThreshold, Reference, Rmia
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import complements
from leakscope.stats.roc_summary import roc_summary
from leakscope.types import Design, Signals

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "scoreboard"
SIZES = (1, 2, 4, 8, 16, 32, 0)  # 0: all other models
FPRS = (0.01, 0.001, 0.0001)
MOST_CHECKPOINTS = 10

Side = Literal["none", "out", "both"]
View = Literal["last", "image", "checkpoints", "queries", "checkpoints and queries", "taylor"]


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: of the attack.
        side: the references it uses.
        settings: the best of them counts.
        view: the outputs it reads; "last": those of the last epoch, where the bank has queries the mean over
            the image and its mirror image; "image": of the image alone; "taylor": RMIA's own signal, from all
            logits of the image.
    """

    name: str
    side: Side
    settings: tuple[Attack, ...]
    view: View = "last"


ROWS = (
    Row("Loss", "none", (LossThreshold(),)),
    Row("Calibrated", "out", (Calibrated(),)),
    Row("Reference (Attack-R)", "out", (Reference(),)),
    Row("LiRA offline, fixed variance", "out", (Lira(online=False),)),
    Row("LiRA offline, record variance", "out", (Lira(online=False, variance="record"),)),
    Row("BASE offline", "out", (Base(online=False),)),
    Row(
        "RMIA offline, best of 8",
        "out",
        tuple(
            Rmia(online=False, gamma=gamma, temperature=temperature, offline_a=a)
            for gamma in (1.0, 2.0)
            for temperature in (1.0, 2.0)
            for a in (0.33, 1.0)
        ),
    ),
    Row("BaVarIA-n offline", "out", (Bavaria("n", online=False),)),
    Row("BaVarIA-t offline", "out", (Bavaria("t", online=False),)),
    Row("LiRA, fixed variance", "both", (Lira(),)),
    Row("LiRA, record variance", "both", (Lira(variance="record"),)),
    Row("BASE", "both", (Base(),)),
    Row(
        "RMIA, best of 4",
        "both",
        tuple(
            Rmia(gamma=gamma, temperature=temperature) for gamma in (1.0, 2.0) for temperature in (1.0, 2.0)
        ),
    ),
    Row("BaVarIA-n", "both", (Bavaria("n"),)),
    Row("BaVarIA-t", "both", (Bavaria("t"),)),
    Row("EB-LiRA", "both", (EbLira(),)),
    Row("EB-LiRA offline", "out", (EbLira(online=False),)),
    Row("EB-LiRA, checkpoints", "both", (EbLira(checkpoints="all"),), "checkpoints"),
    Row("LiRA, 1 query", "both", (Lira(),), "image"),
    Row("RMIA, 1 query", "both", (Rmia(temperature=2.0),), "image"),
    Row("EB-LiRA, 1 query", "both", (EbLira(),), "image"),
    Row("EB-LiRA offline, 1 query", "out", (EbLira(online=False),), "image"),
    Row("LiRA offline, 18 queries", "out", (Lira(online=False, queries="all"),), "queries"),
    Row("LiRA, 18 queries", "both", (Lira(queries="all"),), "queries"),
    Row("RMIA, 18 queries", "both", (Rmia(temperature=2.0, queries="all"),), "queries"),
    Row("RMIA offline, 18 queries", "out", (Rmia(online=False, temperature=2.0, queries="all"),), "queries"),
    Row("EB-LiRA, 18 queries", "both", (EbLira(queries="all"),), "queries"),
    Row("EB-LiRA offline, 18 queries", "out", (EbLira(online=False, queries="all"),), "queries"),
    Row(
        "EB-LiRA, checkpoints and queries",
        "both",
        (EbLira(checkpoints="all", queries="all"),),
        "checkpoints and queries",
    ),
    Row("RMIA, published signal", "both", (Rmia(),), "taylor"),
    Row("RMIA offline, published signal", "out", (Rmia(online=False),), "taylor"),
    Row("EB-LiRA, RMIA's signal", "both", (EbLira(),), "taylor"),
    Row("EB-LiRA offline, RMIA's signal", "out", (EbLira(online=False),), "taylor"),
)


class Bank(NamedTuple):
    """The signals of a bank: view -> log-odds, float16 (models, checkpoints, records[, queries])."""

    name: str
    in_mask: BoolArray
    views: dict[str, AnyArray]
    labels: IntArray
    epochs: tuple[int, ...]


def read_bank(folder: Path) -> Bank:
    """A bank with at most ten checkpoints, evenly spaced, the last among them, and all its queries."""
    files = sorted(folder.glob("log_odds_epoch*.npy"))
    step = -(-len(files) // MOST_CHECKPOINTS)
    files = files[::-1][::step][::-1]
    views: dict[str, AnyArray] = {"last": np.load(files[-1])[:, None]}
    if len(files) > 1:
        views["checkpoints"] = np.stack([np.load(file) for file in files], axis=1)
    labels = np.load(folder / "labels.npy").astype(np.int64)
    if (folder / "log_odds_queries.npy").exists():
        views["queries"] = np.load(folder / "log_odds_queries.npy").swapaxes(1, 2)[:, None]
        views["image"] = views["queries"][..., 0]
        # Earlier checkpoints have the mean of two queries, which here stands for each of the 18.
        earlier = views["checkpoints"][:, :-1, :, None]
        earlier = np.broadcast_to(earlier, (*earlier.shape[:3], views["queries"].shape[3]))
        views["checkpoints and queries"] = np.concatenate([earlier, views["queries"]], axis=1)
    if (folder / "logits_queries.npy").exists():
        views["taylor"] = taylor_log_odds(np.load(folder / "logits_queries.npy", mmap_mode="r")[:, 0], labels)
    epochs = tuple(int(file.stem[-3:]) for file in files)
    return Bank(folder.name, np.load(folder / "design.npy").astype(bool), views, labels, epochs)


def taylor_log_odds(logits: AnyArray, labels: IntArray) -> AnyArray:
    """Log-odds of the label by the soft-margin Taylor softmax, as RMIA is published on CIFAR-10.

    Temperature 2, margin 0.6, and Taylor polynomials of order 4 for exponentials; (models, 1, records).
    """
    log_odds = np.empty((len(logits), 1, logits.shape[1]), dtype=np.float32)
    for model, own in enumerate(logits):
        scaled = own.astype(np.float64) / 2
        at = np.arange(len(labels)), labels
        weights = _taylor(scaled)
        others = weights.sum(axis=1) - weights[at]
        log_odds[model, 0] = np.log(_taylor(scaled[at] - 0.6)) - np.log(others)
    return log_odds


def _taylor(z: FloatArray) -> FloatArray:
    """exp(z) to order 4, which is positive everywhere."""
    return np.asarray(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24)


def references(design: Design, target: int, size: int) -> IntArray:
    """Random references of a target; pairs of complementary models where the bank has them."""
    others = np.delete(np.arange(design.n_models), target)
    if size == 0 or size >= len(others):
        return others
    rng = np.random.default_rng([size, target])
    partner = complements(design)
    if (partner < 0).any() or size == 1:
        return np.sort(rng.choice(others, size, replace=False))
    firsts = others[(others < partner[others]) & (partner[others] != target)]
    drawn = rng.choice(firsts, size // 2, replace=False)
    return np.sort(np.concatenate([drawn, partner[drawn]]))


def figures(bank: Bank, row: Row, target: int, size: int) -> list[float]:
    """AUC and TPRs of one target: of each, the best over the row's settings."""
    models = np.concatenate([[target], references(Design(bank.in_mask), target, size)])
    outputs = bank.views[row.view][models].astype(np.float32)
    design = Design(bank.in_mask[models])
    rows = []
    for attack in row.settings:
        found = roc_summary(_scores(attack, outputs, bank.labels, design), design.in_mask[0], FPRS)
        rows.append([found.auc, *(point.tpr for point in found.points)])
    return [round(float(value), 6) for value in np.array(rows).max(axis=0)]


def _scores(attack: Attack, outputs: FloatArray, labels: IntArray, design: Design) -> FloatArray:
    arrays = {"query_log_odds": outputs}
    if outputs.ndim == 3:
        arrays = {"log_odds": outputs, "loss": np.logaddexp(0.0, -outputs)}
    signals = Signals(arrays, tuple(range(1, 1 + outputs.shape[1])), labels)
    return attack(signals, design, np.array([0])).values[0]


def compute(bank: Bank, n_targets: int, sizes: tuple[int, ...], names: list[str] | None) -> None:
    """Adds the missing cells of a bank to its file, one by one."""
    path = RESULTS / f"{bank.name}.json"
    n_models, n_records = bank.in_mask.shape
    targets = [int(t) for t in np.linspace(0, n_models - 1, min(n_targets, n_models)).round()]
    about = {
        "bank": bank.name, "models": n_models, "records": n_records, "targets": targets,
        "epochs": list(bank.epochs), "fprs": list(FPRS),
    }  # fmt: skip
    stored = json.loads(path.read_text()) if path.exists() else {**about, "cells": {}}
    if stored["targets"] != targets:
        raise SystemExit(f"{path} has targets {stored['targets']}, asked for {targets}; remove the file")
    for size in [s for s in sizes if s < n_models - 1]:
        for row in ROWS:
            cells = stored["cells"].setdefault(row.name, {})
            if str(size) in cells or (names and row.name not in names):
                continue
            if (row.side == "none" and size) or row.view not in bank.views:
                continue  # the same at every size; or the bank has no such outputs
            started = time.perf_counter()
            cells[str(size)] = [figures(bank, row, target, size) for target in targets]
            write_json(path, stored)
            mean = np.mean(cells[str(size)], axis=0)
            print(f"{bank.name} {size:3d} {row.name:30s} AUC {mean[0]:.4f}  TPR@0.1% {mean[2]:.4f}  "
                  f"({time.perf_counter() - started:.0f} s)", flush=True)  # fmt: skip


def write_json(path: Path, stored: object) -> None:
    """All at once, so that a stopped run leaves a whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    text = json.dumps(stored, separators=(",", ":")).replace("NaN", "null")  # JSON has no NaN
    draft.write_text(text + "\n")
    draft.replace(path)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--bank", type=Path, action="append", default=[], help="may be repeated")
    arguments.add_argument("--targets", type=int, default=16)
    arguments.add_argument("--sizes", default=",".join(map(str, SIZES)), help="0: all other models")
    arguments.add_argument("--attack", action="append", choices=[row.name for row in ROWS])
    options = arguments.parse_args()
    for folder in options.bank:
        compute(read_bank(folder), options.targets, tuple(map(int, options.sizes.split(","))), options.attack)
    scoreboard_page.write(RESULTS)


if __name__ == "__main__":
    main()
