"""How many exposed records do few models detect, and what do they rule out? Decision trees on 300 records.

The labels are mostly noise, so nearly every record is exposed. The detected share grows with the number of
models, and is no upper bound; the bound that a gate reads begins at 100%.

    python benchmarks/exposed_share.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.tree import DecisionTreeClassifier

import leakscope

N_RECORDS, N_FEATURES = 300, 8
MODELS = (8, 16, 24, 64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    x, y = rng.normal(size=(N_RECORDS, N_FEATURES)), rng.integers(0, 2, N_RECORDS)
    print("| models | detected | at most |\n|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for n_models in MODELS:
            verdict = leakscope.audit(
                X=x,
                y=y,
                estimator=DecisionTreeClassifier(),
                models=n_models,
                out=Path(folder) / str(n_models),
            )
            exposed = verdict.results.exposed
            assert exposed is not None
            print(f"| {n_models} | {exposed.share or 0:.0%} | {exposed.at_most or 1:.0%} |", flush=True)


if __name__ == "__main__":
    main()
