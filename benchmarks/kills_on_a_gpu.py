"""A training on a GPU is killed halfway and resumed: `python benchmarks/kills_on_a_gpu.py [--deterministic]`.

Every case is trained three times: twice without a break, and once killed (SIGKILL) after half of its epochs
and resumed from its saved state. Reported are the largest differences of log-odds between the two whole
trainings and between a whole and the resumed one. Where the device itself is not deterministic, the former
is not 0 either. `--deterministic` sets `torch.backends.cudnn.deterministic`.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from leakscope.design import make_design
from leakscope.disk.saved_training import Saving
from leakscope.recipe import Recipe
from leakscope.train.block import Follow
from leakscope.train.loop import inputs_from, train_block
from leakscope.types import Records

N_RECORDS, N_MODELS = 512, 4
SECONDS_BETWEEN_SAVES = 0.3
RESNET = Recipe(net="wide_resnet", net_options=(("depth", 10), ("widen", 1)), optimizer="sgd", lr=0.05,
                momentum=0.9, nesterov=True, weight_decay=5e-4, flips=True, crop=2, batch_size=32, epochs=80,
                checkpoints=(20, 40, 60, 80), schedule="cosine")  # fmt: skip
MLP = Recipe(net="mlp", net_options=(("dropout", 0.2), ("width", 64)), lr=0.003, batch_size=16, epochs=400)
CASES = {
    "perceptrons with dropout, Adam": ("stacked", MLP),
    "residual networks, SGD": ("side_by_side", RESNET),
    "residual networks, SAM": ("side_by_side", replace(RESNET, sam_rho=0.05)),
    "residual networks, SAM, bfloat16": ("side_by_side", replace(RESNET, sam_rho=0.05, precision="bfloat16")),
}


def records() -> Records:
    """Noisy images of four classes, one brighter than the other."""
    labels = np.arange(N_RECORDS) % 4
    pixels = np.random.default_rng(0).integers(0, 120, (N_RECORDS, 3, 16, 16))
    pixels += 30 * labels[:, None, None, None]
    ids = np.arange(N_RECORDS).astype(str)
    return Records(pixels.astype(np.uint8), labels.astype(np.int64), ids, class_names=tuple("abcd"))


def train(case: str, folder: Path, device: str, deterministic: bool) -> None:
    """Trains the block of a case, saves its log-odds; prints a line after every epoch."""
    torch.backends.cudnn.deterministic = deterministic
    trainer, recipe = CASES[case]
    folder.mkdir(parents=True, exist_ok=True)
    follow = Follow(lambda _: print("epoch", flush=True), Saving(folder, case, SECONDS_BETWEEN_SAVES))
    design = make_design("balanced", N_MODELS, N_RECORDS, 1)
    inputs = inputs_from(records(), torch.device(device))
    block = train_block(inputs, design, recipe, np.arange(N_MODELS), 5, ("log_odds",), trainer, follow)
    np.save(folder / "log_odds.npy", block.signals["log_odds"])


def started(case: str, folder: Path, options: list[str]) -> subprocess.Popen[str]:
    """A process that trains the case in the folder."""
    command = [sys.executable, __file__, "--case", case, "--folder", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def epochs_of(process: subprocess.Popen[str], kill_after: float = float("inf")) -> int:
    """Number of epochs until the process ends or has been killed."""
    n_epochs = 0
    for line in process.stdout or ():
        n_epochs += line.startswith("epoch")
        if n_epochs == kill_after:
            time.sleep(2 * SECONDS_BETWEEN_SAVES)
            process.send_signal(signal.SIGKILL)
    process.wait()
    return n_epochs


def row(case: str, folder: Path, options: list[str]) -> str:
    """A row of the table."""
    epochs_of(started(case, folder / "whole", options))
    epochs_of(started(case, folder / "again", options))
    epochs_of(started(case, folder / "cut", options), kill_after=CASES[case][1].epochs // 2)
    resumed = epochs_of(started(case, folder / "cut", options))
    whole, again, cut = (np.load(folder / name / "log_odds.npy") for name in ("whole", "again", "cut"))
    differences = (f"{np.abs(whole - other).max():.2g}" for other in (again, cut))
    return f"| {case} | {resumed} of {CASES[case][1].epochs} | " + " | ".join(differences) + " |"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--case", choices=CASES, help="train this case in --folder, for the script itself")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.folder:
        train(given.case, given.folder, given.device, given.deterministic)
        return
    options = ["--device", given.device, *(["--deterministic"] if given.deterministic else [])]
    print("| case | epochs after resuming | whole - again | whole - resumed |\n|---|---:|---:|---:|")
    for case in [given.case] if given.case else CASES:
        with tempfile.TemporaryDirectory() as folder:
            print(row(case, Path(folder), options), flush=True)


if __name__ == "__main__":
    main()
