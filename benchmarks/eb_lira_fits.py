"""What the fits of EB-LiRA cost, against expectation-maximization written plainly and against LiRA.

A round of the plain fit computes some twenty arrays of (records, types). leakscope's round computes one, and
takes everything else from its product with the records' sums (`stats/record_types.py`). Both run here, on
the same population, with all models as targets, and the benchmark fails if any score differs. Times are
processor seconds of this process, on one thread per product, so that other processes hardly change them.

    OMP_NUM_THREADS=1 python benchmarks/eb_lira_fits.py --bank FOLDER

The folder holds design.npy (bool, models x records) and log_odds_epochNNN.npy files; without one, made-up
outputs of the same size are used.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from unittest import mock

import numpy as np

from leakscope.attacks import eb_lira
from leakscope.attacks.base import Attack
from leakscope.attacks.lira import Lira
from leakscope.stats import record_types
from leakscope.stats.record_types import RecordTypes
from leakscope.stats.side_sums import SideSums, overall_variance, usual_gap
from leakscope.types import Design, Signals

BESIDE = Path(__file__).parents[2] / "shared" / "banks" / "cifar10-wrn28-2"


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--bank", type=Path, default=BESIDE)
    arguments.add_argument("--references", type=int, default=8)
    options = arguments.parse_args()
    signals, design, place = population(options.bank, options.references + 1)
    print(f"{design.n_models} models, each the target in turn, {design.n_records:,} records {place}")
    _, lira = measured(Lira(), signals, design)
    scores, ours = measured(eb_lira.EbLira(), signals, design)
    with mock.patch.object(eb_lira, "fit_each", plain_fits):
        plain_scores, plain = measured(eb_lira.EbLira(), signals, design)
    print(f"LiRA                  {lira:6.2f} CPU s")
    print(f"EB-LiRA               {ours:6.2f} CPU s")
    print(f"EB-LiRA, plain fits   {plain:6.2f} CPU s, {plain / ours:.1f} times as much")
    differ = float((scores != plain_scores).mean())
    print(f"scores that differ: {differ:.4%}, at most by {np.abs(scores - plain_scores).max():.4f}")
    assert differ < 1e-3, "the fits are not the same"


def population(folder: Path, n_models: int) -> tuple[Signals, Design, str]:
    """Log-odds of some models, and who was in their training sets."""
    if folder.is_dir():
        in_mask = np.load(folder / "design.npy")[:n_models]
        log_odds = np.load(sorted(folder.glob("log_odds_epoch*.npy"))[-1])[:n_models].astype(np.float32)
        place = f"of {folder.name}"
    else:
        rng = np.random.default_rng(0)
        in_mask = rng.random((n_models, 20_000)) < 0.5
        difficulty = rng.normal(4, 2, 20_000)
        gap = rng.gamma(1, 1, 20_000)
        log_odds = (difficulty + gap * in_mask + rng.normal(size=in_mask.shape)).astype(np.float32)
        place = "(made up)"
    labels = np.zeros(in_mask.shape[1], np.int64)
    return Signals({"log_odds": log_odds[:, None]}, (1,), labels), Design(in_mask), place


def measured(attack: Attack, signals: Signals, design: Design) -> tuple[np.ndarray, float]:
    """Scores of all models, and the processor seconds they took; the better of two runs."""
    seconds = []
    for _ in range(2):
        started = time.process_time()
        scores = attack(signals, design, np.arange(design.n_models)).values
        seconds.append(time.process_time() - started)
    return scores, min(seconds)


def plain_fits(sets: list[SideSums], n_types: int, resolution_variances: list[float]) -> list[RecordTypes]:
    """`fit_each` with plain fits."""
    return [plain_fit(sums, n_types, least) for sums, least in zip(sets, resolution_variances, strict=True)]


def plain_fit(sums: SideSums, n_types: int, resolution_variance: float) -> RecordTypes:
    """`fit_record_types` with plain rounds."""
    types, previous = record_types._start(sums, n_types, usual_gap(sums)), -np.inf
    share = record_types._SMALLEST_SHARE
    smallest = max(share * overall_variance(sums), resolution_variance)
    for _ in range(record_types._N_ROUNDS):
        types, log_likelihood = improved(types, sums, smallest)
        if log_likelihood - previous < record_types._TOLERANCE:
            break
        previous = log_likelihood
    return types


def improved(types: RecordTypes, sums: SideSums, smallest: float) -> tuple[RecordTypes, float]:
    """One round of expectation-maximization over arrays of (records, types)."""
    n_in, sum_in, square_in, n_out, sum_out, square_out = (s[:, None] for s in sums)
    noise_in, noise_out = types.noise.T
    s_in, s_out, s_cross = types.covariance.T
    prior_determinant = s_in * s_out - s_cross**2
    l_in, l_out, l_cross = s_out / prior_determinant, s_in / prior_determinant, -s_cross / prior_determinant
    precision_in, precision_out = l_in + n_in / noise_in, l_out + n_out / noise_out
    determinant = precision_in * precision_out - l_cross**2
    var_in, var_out, covar = precision_out / determinant, precision_in / determinant, -l_cross / determinant
    pull_in = l_in * types.mean[:, 0] + l_cross * types.mean[:, 1]
    pull_out = l_cross * types.mean[:, 0] + l_out * types.mean[:, 1]
    g_in, g_out = pull_in + sum_in / noise_in, pull_out + sum_out / noise_out
    mean_in, mean_out = var_in * g_in + covar * g_out, covar * g_in + var_out * g_out
    log_p = np.log(types.weight) - 0.5 * (
        n_in * np.log(noise_in) + n_out * np.log(noise_out) + square_in / noise_in + square_out / noise_out
        + np.log(prior_determinant) + np.log(determinant)
        + types.mean[:, 0] * pull_in + types.mean[:, 1] * pull_out - mean_in * g_in - mean_out * g_out
    )  # fmt: skip
    largest = log_p.max(axis=1, keepdims=True)
    total = largest + np.log(np.exp(log_p - largest).sum(axis=1, keepdims=True))
    share = np.exp(log_p - total)
    size = share.sum(axis=0)
    m_in, m_out = (share * mean_in).sum(axis=0) / size, (share * mean_out).sum(axis=0) / size
    d_in, d_out = mean_in - m_in, mean_out - m_out
    spread = [
        (share * (d_in * d_in + var_in)).sum(axis=0) / size + smallest,
        (share * (d_out * d_out + var_out)).sum(axis=0) / size + smallest,
        (share * (d_in * d_out + covar)).sum(axis=0) / size,
    ]
    scatter_in = square_in - 2 * mean_in * sum_in + n_in * (mean_in**2 + var_in)
    scatter_out = square_out - 2 * mean_out * sum_out + n_out * (mean_out**2 + var_out)
    noise = [
        (share * scatter_in).sum(axis=0) / (share * n_in).sum(axis=0),
        (share * scatter_out).sum(axis=0) / (share * n_out).sum(axis=0),
    ]
    fitted = RecordTypes(
        (size + 1) / (size + 1).sum(),
        np.stack([m_in, m_out], axis=1),
        np.stack(spread, axis=1),
        np.maximum(np.stack(noise, axis=1), smallest),
    )
    return fitted, float(total.mean())


if __name__ == "__main__":
    main()
