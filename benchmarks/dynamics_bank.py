"""Trains one setting of the dynamics study on a GPU machine and writes the outputs of its models as a bank.

The runs at the published length take a quarter of an hour on one H200. A machine that is lent for that has
no data folder, and needs nothing but torch, numpy and scipy for what follows:

    python benchmarks/dynamics_bank.py --preset mnist --optimizer adamw --pack mnist.npz.xz
    python benchmarks/dynamics_bank.py --preset mnist --optimizer adamw --records mnist.npz.xz --out FOLDER
    leakscope study dynamics --bank FOLDER --dataset mnist --net wide_resnet --optimizer adamw ...

The first command packs the records where the data are. The second trains the models, in blocks that are
stored when they are complete: the same command again trains what is missing. When all models are there, it
writes the arrays that `--bank` reads: float16 log-odds, whether each output is
correct, and the uncertainties over the models not trained on a record.
"""

from __future__ import annotations

import argparse
import lzma
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from leakscope.data.registry import load
from leakscope.design import make_design
from leakscope.disk.string_arrays import numbered_ids
from leakscope.hardness.uncertainty import uncertainty_at_checkpoints
from leakscope.studies.dynamics.settings import PRESETS, Setting
from leakscope.train.loop import inputs_from, train_block
from leakscope.types import Design, Records

SIGNALS = ("correct", "log_odds", "logits")
TRAINER = "side_by_side"


def setting_of(options: argparse.Namespace) -> Setting:
    """The preset's setting with this optimizer, or its first, with what was given."""
    settings = PRESETS[options.preset]
    chosen = next((one for one in settings if one.optimizer == options.optimizer), settings[0])
    names = ("optimizer", "seed", "epochs", "every", "universe", "models", "precision")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return replace(chosen, **given)


def pack(setting: Setting, file: Path) -> None:
    """Writes the records of the setting as one compressed file."""
    records = load(setting.dataset)
    chosen = records.take(np.arange(setting.universe or len(records)))
    with lzma.open(file, "wb") as packed:
        np.savez(packed, features=chosen.features, labels=chosen.labels)


def unpacked(setting: Setting, file: Path) -> Records:
    """The records of a packed file."""
    with lzma.open(file, "rb") as packed, np.load(packed) as arrays:
        features, labels = arrays["features"], arrays["labels"]
    ids, classes = numbered_ids(f"{setting.dataset}-", len(labels)), range(int(labels.max()) + 1)
    return Records(features, labels, ids, setting.dataset, class_names=tuple(map(str, classes)))


def train_missing(setting: Setting, records: Records, out: Path, block: int, device: str) -> Design:
    """Trains the models that are not stored yet, `block` at a time."""
    out.mkdir(parents=True, exist_ok=True)
    design = make_design(setting.design, setting.models, len(records), setting.run_seed)
    inputs = inputs_from(records, torch.device(device))
    for start in range(0, setting.models, block):
        models = np.arange(start, min(start + block, setting.models))
        file = _block_file(out, models)
        if file.exists():
            continue
        started = time.perf_counter()
        trained = train_block(inputs, design, setting.recipe(), models, setting.run_seed, SIGNALS, TRAINER)
        unfinished = file.with_suffix(".unfinished.npz")
        arrays = {name: trained.signals[name].astype(np.float16) for name in ("log_odds", "logits")}
        np.savez(unfinished, correct=trained.signals["correct"].astype(np.bool_), **arrays)
        unfinished.rename(file)
        seconds = time.perf_counter() - started
        n_images = setting.epochs * int(design.in_mask[models].sum())
        diverged = np.count_nonzero(trained.diverged_at)
        print(
            f"{setting.name}, models {models[0]} to {models[-1]}: {seconds:.0f} s, {n_images / seconds:,.0f} "
            f"images/s with evaluation; {diverged} diverged; {trained.note}",
            flush=True,
        )
    return design


def _block_file(out: Path, models: np.ndarray) -> Path:
    return out / f"block-{models[0]:03d}-{models[-1] + 1:03d}.npz"


def write_bank(setting: Setting, design: Design, labels: np.ndarray, out: Path) -> None:
    """The arrays of all models, as `leakscope study dynamics --bank` reads them."""
    blocks = [np.load(file) for file in sorted(out.glob("block-*[0-9].npz"))]
    arrays = {name: np.concatenate([block[name] for block in blocks]) for name in SIGNALS}
    np.save(out / "design.npy", design.in_mask)
    np.save(out / "labels.npy", labels.astype(np.uint8))
    np.save(out / "epochs.npy", np.array(setting.checkpoints))
    np.save(out / "correct.npy", arrays["correct"])
    for name, values in uncertainty_at_checkpoints(arrays["logits"], ~design.in_mask).items():
        np.save(out / f"{name}.npy", values.astype(np.float32))
    np.save(out / "log_odds.npy", arrays["log_odds"])
    accuracy = [arrays["correct"][:, -1][side].mean() for side in (design.in_mask, ~design.in_mask)]
    print(f"{setting.name}: accuracy {accuracy[0]:.4f} on members, {accuracy[1]:.4f} on others", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", choices=tuple(PRESETS), default="mnist")
    parser.add_argument("--optimizer")
    for name in ("seed", "epochs", "every", "universe", "models"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--precision")
    parser.add_argument("--block", type=int, default=10, help="models trained at a time")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pack", type=Path, help="write the records here")
    parser.add_argument("--records", type=Path, help="records that --pack wrote")
    parser.add_argument("--out", type=Path, help="folder of the blocks and of the bank")
    options = parser.parse_args()
    setting = setting_of(options)
    if options.pack is not None:
        pack(setting, options.pack)
    elif options.records is None or options.out is None:
        print("skipped: give --pack, or --records and --out")
    else:
        records = unpacked(setting, options.records)
        design = train_missing(setting, records, options.out, options.block, options.device)
        write_bank(setting, design, records.labels, options.out)


if __name__ == "__main__":
    main()
