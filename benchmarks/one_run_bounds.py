"""Bounds on epsilon from one run, against Gaussian mechanisms whose epsilon is known.

A canary that is in has a score from N(mu, 1), one that is out from N(0, 1): a Gaussian mechanism. Prints how
often each bound exceeds the true epsilon (its error allows 5%), and its median:

    python benchmarks/one_run_bounds.py --seeds 500
"""

from __future__ import annotations

import argparse
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import optimize

from leakscope.dp.gaussian_sum import lower_mu, why_not_gaussian
from leakscope.stats.gdp import gdp_epsilon
from leakscope.stats.one_run import (
    GUESSED_SHARES,
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    guesses_of_scores,
)

DELTA, CONFIDENCE = 1e-5, 0.95
BOUNDS = {"Steinke et al.": epsilon_of_guesses, "Mahloujifar et al.": gaussian_epsilon_of_guesses}
GAUSSIAN_SUM, VERDICT = "Gaussian scores", "all three, sharing the error"


class Row(NamedTuple):
    epsilon: float
    canaries: int
    bound: str
    above: float
    median: float


def mu_of(epsilon: float) -> float:
    return float(optimize.brentq(lambda mu: gdp_epsilon(mu, DELTA) - epsilon, 1e-3, 10))


@cache
def bound_of(name: str, guesses: tuple[int, int, int], confidence: float) -> float:
    return BOUNDS[name](Guesses(*guesses), delta=DELTA, confidence=confidence).epsilon


def strongest(name: str, scores: np.ndarray, is_in: np.ndarray, error: float) -> float:
    """As `strongest_bound`, with bounds that were computed before remembered."""
    numbers = sorted({max(1, round(share * len(scores))) for share in GUESSED_SHARES})
    each = 1 - error / len(numbers)
    return max(bound_of(name, tuple(guesses_of_scores(scores, is_in, n)), each) for n in numbers)


def gaussian_sum(scores: np.ndarray, is_in: np.ndarray, error: float) -> float:
    inside, outside = scores[is_in], scores[~is_in]
    if why_not_gaussian(inside, outside):
        return 0.0
    return gdp_epsilon(lower_mu(inside, outside, 1 - error), DELTA)


def rows(epsilon: float, canaries: int, seeds: int) -> list[Row]:
    mu, bounds = mu_of(epsilon), {name: [] for name in (*BOUNDS, GAUSSIAN_SUM, VERDICT)}
    for seed in range(seeds):
        rng = np.random.default_rng([seed, canaries, round(epsilon)])
        is_in = rng.random(canaries) < 0.5
        scores = mu * is_in + rng.standard_normal(canaries)
        for name in BOUNDS:
            bounds[name].append(strongest(name, scores, is_in, 1 - CONFIDENCE))
        bounds[GAUSSIAN_SUM].append(gaussian_sum(scores, is_in, 1 - CONFIDENCE))
        third = (1 - CONFIDENCE) / 3
        shared = [strongest(name, scores, is_in, third) for name in BOUNDS]
        bounds[VERDICT].append(max(*shared, gaussian_sum(scores, is_in, third)))
    return [
        Row(epsilon, canaries, name, float(np.mean(np.array(values) > epsilon)), float(np.median(values)))
        for name, values in bounds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--canaries", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0, 8.0])
    arguments = parser.parse_args()
    print(f"{arguments.seeds} seeds\n| epsilon | canaries | bound | above the truth | median |")
    print("|---:|---:|---|---:|---:|")
    for canaries in arguments.canaries:
        for epsilon in arguments.epsilons:
            for row in rows(epsilon, canaries, arguments.seeds):
                print(
                    f"| {epsilon:g} | {canaries:,} | {row.bound} | {row.above:.1%} | {row.median:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
