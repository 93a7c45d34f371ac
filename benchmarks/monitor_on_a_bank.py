"""How well does one model's training loss alone tell who will be exposed? Against a population's truth.

Each model of a bank is "the one model" in turn. Its members' losses go into leakscope.Monitor, checkpoint by
checkpoint. Truth is the population's: the record's mean leave-one-out EB-LiRA score over the models that saw
it minus over those that did not, at the end of training. Precision is the share of the monitor's top 1%, 5%
or 10% of the members that are among the truly most exposed 5% of them; lift is precision over the 5% that
chance gives. Rivals in the same run: the loss-trace spread (inter-quartile range), the mean loss and the
latest loss. Intervals are 95% t intervals over models.

    python benchmarks/monitor_on_a_bank.py --bank digits --bank cifar10 --bank FOLDER

"digits", "fashion-mnist" and "cifar10" train their banks first (under --work, found again by a later run; the
last takes minutes, and the last two need --data-dir). A FOLDER holds design.npy, labels.npy and
log_odds_epochNNN.npy files.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import leakscope
from leakscope.array_types import FloatArray, IntArray
from leakscope.attacks.eb_lira import EbLira
from leakscope.design import make_design
from leakscope.engine.local import TrainingRequest, complete_bank
from leakscope.hardness.in_out_mean import side_mean
from leakscope.stats.intervals import mean_over_targets
from leakscope.types import Design, Signals

BESIDE = Path(__file__).parents[2] / "shared"
EXPOSED = 0.05
SHARES = (0.01, 0.05, 0.1)
PREDICTORS = ("Monitor", "loss-trace spread", "mean loss", "latest loss")


class Setting(NamedTuple):
    """A bank to train: records, models, recipe."""

    dataset: str
    n_records: int
    n_models: int
    recipe: leakscope.Recipe


SETTINGS = {
    "digits": Setting(
        "digits",
        1797,
        64,
        leakscope.Recipe(
            net="mlp", net_options=(("width", 256),), lr=0.003, epochs=60, checkpoints=tuple(range(1, 61))
        ),
    ),
    "fashion-mnist": Setting(
        "fashion-mnist",
        3000,
        32,
        leakscope.Recipe(
            net="mlp", net_options=(("width", 256),), epochs=40, checkpoints=tuple(range(1, 41))
        ),
    ),
    "cifar10": Setting(
        "cifar10",
        2000,
        16,
        leakscope.Recipe(
            net="cnn", net_options=(("channels", 8),), lr=0.003, epochs=20, checkpoints=tuple(range(1, 21))
        ),
    ),
}


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--bank", action="append", help="a name or a folder; may be repeated")
    arguments.add_argument("--work", type=Path, default=Path("runs/monitor"), help="where banks are trained")
    arguments.add_argument("--data-dir", type=Path, default=BESIDE / "data")
    options = arguments.parse_args()
    for bank in options.bank or ["digits", str(BESIDE / "banks" / "cifar10-wrn28-2")]:
        if bank not in SETTINGS and not Path(bank).is_dir():
            print(f"skipped: no bank at {bank}")
            continue
        signals, design = (
            trained(bank, options.work, options.data_dir) if bank in SETTINGS else read(Path(bank))
        )
        show(Path(bank).name, signals, design)


def trained(name: str, work: Path, data_dir: Path) -> tuple[Signals, Design]:
    """The bank of a setting; trained unless it is there."""
    setting = SETTINGS[name]
    options = {} if name == "digits" else {"data_dir": data_dir}
    records = leakscope.load(setting.dataset, **options).take(np.arange(setting.n_records))
    design = make_design("balanced", setting.n_models, len(records), seed=0)
    request = TrainingRequest(records, design, setting.recipe, seed=0, signals=("log_odds", "loss"))
    bank = complete_bank(work / name, request)
    return bank.signals(), design


def read(folder: Path) -> tuple[Signals, Design]:
    """A bank of plain files; cross-entropy follows from the log-odds."""
    files = sorted(folder.glob("log_odds_epoch*.npy"))
    log_odds = np.stack([np.load(path) for path in files], axis=1).astype(np.float32)
    epochs = tuple(int(path.stem.removeprefix("log_odds_epoch")) for path in files)
    labels = np.load(folder / "labels.npy").astype(np.int64)
    signals = Signals({"log_odds": log_odds, "loss": np.logaddexp(0, -log_odds)}, epochs, labels)
    return signals, Design(np.load(folder / "design.npy"))


def show(name: str, signals: Signals, design: Design) -> None:
    loss, epochs, in_mask = signals.arrays["loss"], signals.epochs, design.in_mask
    scores = EbLira()(signals, design, np.arange(design.n_models)).values
    truth = side_mean(scores, in_mask) - side_mean(scores, ~in_mask)
    print(
        f"\n{name}: {in_mask.shape[0]} models, {in_mask.shape[1]:,} records, checkpoints {len(epochs)}, ",
        end="",
    )
    print(f"final loss {loss[:, -1][in_mask].mean():.4f} IN, {loss[:, -1][~in_mask].mean():.3f} OUT")
    found = np.stack([lifts(loss[m], in_mask[m], truth) for m in range(len(loss))])
    half = max(t for t, epoch in enumerate(epochs) if epoch <= epochs[-1] / 2)
    print(f"{'lift at top 5%':20s}  {f'half (epoch {epochs[half]})':18s}  end (epoch {epochs[-1]})")
    for p, predictor in enumerate(PREDICTORS):
        print(f"{predictor:20s}  {_cell(found[:, p, half, 1]):18s}  {_cell(found[:, p, -1, 1])}")
    print(f"{'Monitor, own score left out':27s} {_cell(_without_own(loss, in_mask, scores, half)):18s}")
    base = np.mean([len(best(truth[members], EXPOSED)) / members.sum() for members in in_mask])
    print("epoch  " + "  ".join(f"top {share:3.0%}: precision, lift" for share in SHARES))
    for t, epoch in enumerate(epochs):
        cells = [f"{found[:, 0, t, s].mean() * base:6.1%}  {_cell(found[:, 0, t, s]):12s}" for s in range(3)]
        print(f"{epoch:5d}  " + "      ".join(cells), flush=True)


def lifts(loss: FloatArray, members: np.ndarray, truth: FloatArray) -> FloatArray:
    """One model's lifts; (predictors, checkpoints, shares)."""
    exposed = np.zeros(int(members.sum()), dtype=bool)
    exposed[best(truth[members], EXPOSED)] = True
    monitor, total = leakscope.Monitor(len(exposed)), np.zeros(len(exposed))
    found = np.empty((len(PREDICTORS), len(loss), len(SHARES)))
    for t, losses in enumerate(loss[:, members].astype(np.float64)):
        monitor.update(losses)
        total += losses
        for p, values in enumerate((monitor.exposure(), monitor.spread(), total, losses)):
            for s, share in enumerate(SHARES):
                found[p, t, s] = exposed[best(values, share)].mean() / exposed.mean()
    return found


def _without_own(loss: FloatArray, in_mask: np.ndarray, scores: FloatArray, half: int) -> np.ndarray:
    """Lift at half, top 5%, when the one model's own score is no part of the truth; (models,)."""
    found = []
    for m in range(len(loss)):
        others = np.arange(len(loss)) != m
        truth = side_mean(scores[others], in_mask[others]) - side_mean(scores[others], ~in_mask[others])
        truth = np.nan_to_num(truth, nan=-np.inf)
        found.append(lifts(loss[m, : half + 1], in_mask[m], truth)[0, -1, 1])
    return np.array(found)


def best(values: FloatArray, share: float) -> IntArray:
    """The share of the records with the highest values."""
    return np.argsort(-values, kind="stable")[: max(1, round(share * len(values)))]


def _cell(values: np.ndarray) -> str:
    found = mean_over_targets(values)
    return f"{found.mean:.2f} ± {(found.interval.high - found.interval.low) / 2:.2f}"


if __name__ == "__main__":
    main()
