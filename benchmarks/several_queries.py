"""Several queries per record, from training to figures: an audit of images, and one of a table.

    python benchmarks/several_queries.py --data-dir FOLDER
    OMP_NUM_THREADS=1 python benchmarks/several_queries.py --cost

The first trains 32 multilayer perceptrons on random halves of 2,000 images of Fashion-MNIST, with flips and
crops, and 32 on the shipped digits as rows of a table, queried with a little noise. It prints AUC and TPR of
LiRA, RMIA and EB-LiRA with one query and with several, and takes minutes on two cores. The second prints
processor seconds and memory of the attacks on made-up outputs.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import leakscope
from leakscope.attacks.spec import resolve
from leakscope.design import make_design
from leakscope.recipe import Recipe
from leakscope.types import Records, Signals

ATTACKS = (
    "lira", "lira(queries=all)", "rmia(temperature=2.0)", "rmia(temperature=2.0, queries=all)", "eb_lira",
    "eb_lira(queries=all)", "eb_lira(checkpoints=all)", "eb_lira(checkpoints=all, queries=all)",
)  # fmt: skip
FPR = 0.01


class Population(NamedTuple):
    name: str
    records: Records
    recipe: Recipe
    models: int
    queries: int


def populations(options: argparse.Namespace) -> list[Population]:
    images = leakscope.load("fashion-mnist", options.data_dir).take(np.arange(options.records))
    perceptron = Recipe(net="mlp", net_options=(("width", 128),), optimizer="adam", lr=0.003, epochs=60)
    moving = replace(perceptron, flips=True, crop=2, epochs=100, checkpoints=(50, 100))
    return [
        Population("Fashion-MNIST, 18 queries", images, moving, 32, 18),
        Population("digits as a table, 8 queries", leakscope.load("digits"), perceptron, 32, 8),
    ]


def cost(n_models: int = 64, n_records: int = 20_000, n_queries: int = 18) -> None:
    """Processor seconds of each attack, with every model as the target, and the most memory so far."""
    design, rng = make_design("balanced", n_models, n_records, 0), np.random.default_rng(0)
    values = 2 * rng.normal(size=n_records) + design.in_mask + rng.normal(size=design.in_mask.shape)
    noise = rng.normal(size=(n_models, 1, n_records, n_queries))
    queries = (values[:, None, :, None] + noise).astype(np.float32)
    arrays = {"log_odds": queries[..., 0], "query_log_odds": queries}
    signals = Signals(arrays, (1,), np.zeros(n_records, dtype=np.int64))
    for name in ("lira", "rmia", "eb_lira", "eb_lira(online=false)"):
        for attack in (resolve(name), replace(resolve(name), queries="all")):
            started = time.process_time()
            attack(signals, design)
            seconds = time.process_time() - started
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(f"{attack.label:40s} {seconds:6.1f} processor seconds, {memory:.2f} GB", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--data-dir", type=Path)
    arguments.add_argument("--records", type=int, default=2_000)
    arguments.add_argument("--cost", action="store_true")
    options = arguments.parse_args()
    if options.cost:
        cost()
        return
    for one in populations(options):
        print(f"{one.name}: {one.models} models, {len(one.records):,} records", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            chosen = {"models": one.models, "queries": one.queries, "attacks": ATTACKS, "fpr": [FPR]}
            verdict = leakscope.audit(one.records, one.recipe, folder, **chosen)
        for name, figures in verdict.results.attacks.items():
            auc, (rate,) = figures.auc, figures.tpr_at_fpr
            print(
                f"  {name:40s} AUC {auc.value:.3f} ({auc.low:.3f} to {auc.high:.3f})  TPR at 1% FPR "
                f"{100 * rate.value:.1f}% ({100 * rate.low:.1f} to {100 * rate.high:.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
