"""How many more linear regressions a second than a scikit-learn loop?

Both sides train on the same random sets of 30 records with 5 features, in one process and one thread, from
record numbers to parameters: ours sums moments and eliminates all systems together, the rival calls
`LinearRegression().fit` on each set. A plain `numpy.linalg.lstsq` loop stands beside it, as the fastest loop
one would write by hand. Rounds alternate, because machines are noisy; the ratio is of medians.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LinearRegression

from leakscope.array_types import FloatArray, IntArray
from leakscope.leakage.regressions import draw_others, moment_sums, moment_table, ridge

N_RECORDS, N_FEATURES = 48_842, 5
LARGE, SMALL = 40_000, 400  # models timed of ours, and of a loop


def many(table_of: tuple[FloatArray, FloatArray], draws: IntArray) -> FloatArray:
    table = moment_table(*table_of)
    return np.concatenate([ridge(moment_sums(table, part), part.shape[1]) for part in np.split(draws, 20)])


def scikit_learn_loop(x: FloatArray, y: FloatArray, draws: IntArray) -> FloatArray:
    fitted = [LinearRegression().fit(x[rows], y[rows]) for rows in draws]
    return np.array([[model.intercept_, *model.coef_] for model in fitted])


def lstsq_loop(x: FloatArray, y: FloatArray, draws: IntArray) -> FloatArray:
    with_one = np.column_stack([np.ones(len(x)), x])
    return np.array([np.linalg.lstsq(with_one[rows], y[rows], rcond=None)[0] for rows in draws])


def seconds_each(work: Callable[[], FloatArray]) -> float:
    started = time.perf_counter()
    n_models = len(work())
    return (time.perf_counter() - started) / n_models


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--size", type=int, default=30)
    options = arguments.parse_args()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N_RECORDS, N_FEATURES))
    y = (x[:, 0] + rng.standard_normal(N_RECORDS) > 1).astype(np.float64)
    draws = draw_others(rng, N_RECORDS, 0, LARGE, options.size)
    apart = np.abs(many((x, y), draws)[:SMALL] - scikit_learn_loop(x, y, draws[:SMALL])).max()
    times: dict[str, list[float]] = {"ours": [], "scikit-learn loop": [], "numpy lstsq loop": []}
    for _ in range(options.rounds):
        times["ours"].append(seconds_each(lambda: many((x, y), draws)))
        times["scikit-learn loop"].append(seconds_each(lambda: scikit_learn_loop(x, y, draws[:SMALL])))
        times["numpy lstsq loop"].append(seconds_each(lambda: lstsq_loop(x, y, draws[:SMALL])))
    ours = statistics.median(times["ours"])
    print(f"linear regressions on {options.size} of {N_RECORDS:,} records, {N_FEATURES} features, "
          f"{options.rounds} rounds")  # fmt: skip
    for name, taken in times.items():
        median = statistics.median(taken)
        spread = f"min {1e6 * min(taken):.2f}, max {1e6 * max(taken):.2f}"
        print(f"  {name:18s} {1e6 * median:8.2f} us a model ({spread}), {1 / median:10,.0f} a second, "
              f"{median / ours:6.0f}x ours")  # fmt: skip
    print(f"  parameters are at most {apart:.1e} apart")


if __name__ == "__main__":
    main()
