"""How close does each attack come to the best possible one? In populations whose parameters are known.

A record's output is Gaussian: N(mu, v) in models trained without it, N(mu + d, r v) in models trained with
it. Records differ in mu, d and v, and v has heavy tails (inverse gamma with shape 2, of infinite variance).
The best attack knows mu, d, r and v of every record and scores the exact log likelihood ratio; by the lemma
of Neyman and Pearson no attack has a higher TPR at any FPR. The attacks know what reference models show.

Two populations: in "unrelated" shifts and variances have nothing to do with the means, and the variances
follow BaVarIA's own prior; in "hard records move" harder records have larger shifts and variances, as in real
networks.

    python benchmarks/distance_to_optimum.py

computes the cells that docs/results/scoreboard/optimum.json lacks, draws docs/images/distance_to_optimum.png
and writes docs/scoreboard.md again.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import NamedTuple

import numpy as np

import scoreboard_page
from distance_page import IMAGE, draw
from leakscope.array_types import FloatArray
from leakscope.stats.roc_summary import roc_summary
from leakscope.types import Design, Signals
from scoreboard import FPRS, RESULTS, ROWS, Row, write_json

SIZES = (4, 8, 16, 64)
POPULATIONS = ("unrelated", "hard records move")
OPTIMUM = "Optimum"
N_RECORDS = 20_000


class Truth(NamedTuple):
    """Parameters of the records; (records,) each."""

    mean: FloatArray
    shift: FloatArray
    out_variance: FloatArray
    in_variance: FloatArray

    def log_ratio(self, s: FloatArray) -> FloatArray:
        """The best possible score."""
        as_in = (s - self.mean - self.shift) ** 2 / self.in_variance + np.log(self.in_variance)
        as_out = (s - self.mean) ** 2 / self.out_variance + np.log(self.out_variance)
        return np.asarray(0.5 * (as_out - as_in))


def truth(population: str, rng: np.random.Generator, n_records: int = N_RECORDS) -> Truth:
    """Records of a population."""
    mean = rng.normal(4.0, 3.0, n_records)
    variance = 1 / rng.gamma(2.0, 1.0, n_records)  # mean 1
    if population == "unrelated":
        shift = rng.exponential(1.0, n_records)
        return Truth(mean, shift, variance, variance)
    hardness = 1 / (1 + np.exp((mean - 4.0) / 1.5))  # from 0 to 1
    shift = (0.2 + 4 * hardness**2) * rng.gamma(4.0, 0.25, n_records)
    variance = variance * (0.3 + 1.5 * hardness)
    return Truth(mean, shift, variance, 0.7 * variance)


def outputs(known: Truth, in_mask: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Of models with these members; (models, records)."""
    spread = np.sqrt(np.where(in_mask, known.in_variance, known.out_variance))
    return np.asarray(known.mean + known.shift * in_mask + spread * rng.normal(size=in_mask.shape))


def figures(row: Row | None, population: str, size: int, repeat: int) -> list[float]:
    """AUC and TPRs of one target; of the best possible attack without a row."""
    rng = np.random.default_rng([POPULATIONS.index(population), size, repeat])
    known = truth(population, rng)
    in_mask = rng.random((1 + size, N_RECORDS)) < 0.5
    log_odds = outputs(known, in_mask, rng)[:, None]
    labels = np.zeros(N_RECORDS, dtype=np.int64)
    signals = Signals({"log_odds": log_odds, "loss": np.logaddexp(0, -log_odds)}, (1,), labels)
    if row is None:
        scores = [known.log_ratio(log_odds[0, 0])]
    else:
        scores = [attack(signals, Design(in_mask), np.array([0])).values[0] for attack in row.settings]
    found = [roc_summary(score, in_mask[0], FPRS) for score in scores]
    return [float(v) for v in np.max([[f.auc, *(p.tpr for p in f.points)] for f in found], axis=0).round(6)]


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--repeats", type=int, default=4, help="targets, each with a population of its own"
    )
    options = arguments.parse_args()
    path = RESULTS / "optimum.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    rows: dict[str, Row | None] = {OPTIMUM: None, **{r.name: r for r in ROWS if r.view == "last"}}
    for population in POPULATIONS:
        for size in SIZES:
            for name, row in rows.items():
                cells = stored.setdefault(population, {}).setdefault(name, {})
                if str(size) in cells:
                    continue
                started = time.perf_counter()
                cells[str(size)] = [figures(row, population, size, k) for k in range(options.repeats)]
                write_json(path, stored)
                mean = np.mean(cells[str(size)], axis=0)
                seconds = time.perf_counter() - started
                print(f"{population} {size:3d} {name:30s} {mean.round(4)} ({seconds:.0f} s)", flush=True)
    draw(path, IMAGE)
    scoreboard_page.write(RESULTS)


if __name__ == "__main__":
    main()
