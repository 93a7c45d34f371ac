"""How many bits do a bank's answers carry, checkpoint by checkpoint, and how long does it take to say?

Beside the bits of the fitted Gaussians, with the floor taken off, stand those that an attacker really got:
EB-LiRA's log ratios l, each model judged by the others, are worth `1 - E[log2(1 + exp(-l))]` bits, where l
has its sign turned for non-members and both sides weigh the same. That bounds the mutual information from
below, whatever was fitted to the models; it falls short by what the attacker does not know of a record.

    python benchmarks/bits_on_a_bank.py --bank FOLDER
    python benchmarks/bits_on_a_bank.py --most-exposed

The second command checks the bits of the most exposed 1%: half of the models choose them and say how many
bits they reveal, and the other half are the targets of EB-LiRA.

The folder holds design.npy (bool, models x records), labels.npy and log_odds_epochNNN.npy files. The rival of
the speed figure is a loop over records that fits two Gaussians to each and integrates with scipy's quad.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import integrate, stats

from leakscope.attacks.eb_lira import EbLira
from leakscope.leakage.bits import bits_per_record, n_most_exposed
from leakscope.stats.estimate import TwoEstimates
from leakscope.types import Design, Signals

BESIDE = Path(__file__).parents[2] / "shared" / "banks" / "cifar10-wrn28-2"
RIVAL_RECORDS = 200
HEADINGS = (
    "epoch",
    "mean bits",
    "most exposed 1%",
    "rho_KL, bits",
    "total variation",
    "floor",
    "design permuted",
    "EB-LiRA got",
)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--bank", type=Path, default=BESIDE)
    arguments.add_argument(
        "--most-exposed", action="store_true", help="check the bits of the most exposed 1%%"
    )
    options = arguments.parse_args()
    if not options.bank.is_dir():
        print(f"skipped: no bank at {options.bank}; give one with --bank")
        return
    in_mask = np.load(options.bank / "design.npy")
    labels = np.load(options.bank / "labels.npy").astype(np.int64)
    if options.most_exposed:
        print("| epoch | half | measured | EB-LiRA got, on the other half |\n|---:|---|---|---:|")
        for path in sorted(options.bank.glob("log_odds_epoch*.npy")):
            _check_most_exposed(int(path.stem[-3:]), np.load(path).astype(np.float32), in_mask, labels)
        return
    shuffled = in_mask[np.random.default_rng(1).permutation(len(in_mask))]
    print(f"{options.bank.name}: {in_mask.shape[0]} models, {in_mask.shape[1]:,} records;", end=" ")
    print("95% intervals for these records\n")
    print("| " + " | ".join(HEADINGS) + " |")
    print("|---:|---|---|---|---|---:|---|---:|")
    for path in sorted(options.bank.glob("log_odds_epoch*.npy")):
        answers = np.load(path).astype(np.float32)
        found, null = bits_per_record(answers, in_mask), bits_per_record(answers, shuffled)
        figures = (
            found.means["bits"],
            found.most_exposed,
            found.means["rho_kl"],
            found.means["total_variation"],
        )
        cells = [*map(_cell, figures), f"{found.floor:.4f}", _cell(null.means["bits"])]
        print(
            f"| {int(path.stem[-3:])} | {' | '.join(cells)} | {_attacker(answers, in_mask, labels):.3f} |",
            flush=True,
        )
    started = time.perf_counter()
    bits_per_record(answers, in_mask)
    ours = (time.perf_counter() - started) / in_mask.shape[1]
    rival = _seconds_of_a_loop(answers[:, :RIVAL_RECORDS].astype(float), in_mask[:, :RIVAL_RECORDS])
    print(f"\n{1 / ours:,.0f} records a second, floor and intervals included; without either, a loop over")
    print(f"records with quad does {1 / rival:,.0f}: {rival / ours:,.0f}x")


def _cell(figure: TwoEstimates) -> str:
    ends = (figure.value or 0.0, figure.these_low or 0.0, figure.these_high or 0.0)
    value, low, high = (round(end, 3) + 0.0 for end in ends)  # + 0.0 makes -0.0 equal 0.0
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _attacker(answers: np.ndarray, in_mask: np.ndarray, labels: np.ndarray) -> float:
    """Bits that EB-LiRA's log ratios are worth."""
    return _worth(_ratios(answers, in_mask, labels), in_mask)


def _ratios(answers: np.ndarray, in_mask: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """EB-LiRA's log ratios, each model judged by the others."""
    return EbLira()(Signals({"log_odds": answers[:, None]}, (1,), labels), Design(in_mask)).values


def _worth(ratios: np.ndarray, in_mask: np.ndarray) -> float:
    cost = np.logaddexp(0, np.where(in_mask, -ratios, ratios)) / np.log(2)
    return float(1 - (cost[in_mask].mean() + cost[~in_mask].mean()) / 2)


def _check_most_exposed(epoch: int, answers: np.ndarray, in_mask: np.ndarray, labels: np.ndarray) -> None:
    """One row per half of the models that chooses the most exposed."""
    ratios, is_even = _ratios(answers, in_mask, labels), np.arange(len(in_mask)) % 2 == 0
    for half, name in ((is_even, "even"), (~is_even, "odd")):
        found = bits_per_record(answers[half], in_mask[half])
        chosen = np.argsort(-found.bits)[: n_most_exposed(len(labels))]
        got = _worth(ratios[~half][:, chosen], in_mask[~half][:, chosen])
        print(f"| {epoch} | {name} | {_cell(found.most_exposed)} | {got:.3f} |", flush=True)


def _seconds_of_a_loop(answers: np.ndarray, in_mask: np.ndarray) -> float:
    """A record, of a loop."""
    started = time.perf_counter()
    for values, mask in zip(answers.T, in_mask.T, strict=True):
        a, b = (stats.norm(v.mean(), v.std(ddof=1)) for v in (values[mask], values[~mask]))

        def lost(x: float, a=a, b=b) -> float:  # type: ignore[no-untyped-def]
            log_a, log_b = a.logpdf(x), b.logpdf(x)
            middle = np.logaddexp(log_a, log_b) - np.log(2)
            return float(np.exp(log_a) * (log_a - middle) + np.exp(log_b) * (log_b - middle)) / 2

        integrate.quad(lost, values.min() - 10 * values.std(), values.max() + 10 * values.std(), limit=200)
    return (time.perf_counter() - started) / answers.shape[1]


if __name__ == "__main__":
    main()
