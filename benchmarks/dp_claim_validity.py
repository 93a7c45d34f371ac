"""How often is a claim refuted that is true, and exactly reached?

Populations are simulated whose outputs are as private as claimed and not more, for every record: a Gaussian
mechanism, or randomized response that gives a record away with probability delta. An audit may refute them
in at most 5%. Four times the claimed epsilon shows that the tests refute what they should.

    python benchmarks/dp_claim_validity.py                 # 500 populations per row
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from leakscope.array_types import BoolArray, FloatArray
from leakscope.evaluate.claim_tests import figures_of_claim
from leakscope.privacy.claim import Claim
from leakscope.stats.gdp import gdp_mu
from leakscope.types import Design, Signals

Mechanism = Callable[[BoolArray, float, float, np.random.Generator], FloatArray]
"""Coins, epsilon, delta, generator -> outputs of the same shape."""
NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class SimulatedBank:
    """As much of a bank as the tests of a claim read."""

    outputs: FloatArray
    in_mask: BoolArray
    diverged: Mapping[int, int] = field(default_factory=dict)

    def design(self) -> Design:
        """Who is in which model."""
        return Design(self.in_mask)

    def signals(self) -> Signals:
        """The outputs as log-odds."""
        labels = np.zeros(self.in_mask.shape[1], np.int64)
        return Signals({"log_odds": self.outputs[:, None]}, (1,), labels)


def gaussian(is_in: BoolArray, epsilon: float, delta: float, rng: np.random.Generator) -> FloatArray:
    """A Gaussian mechanism."""
    return gdp_mu(epsilon, delta) * is_in + rng.normal(size=is_in.shape)


def randomized_response(
    is_in: BoolArray, epsilon: float, delta: float, rng: np.random.Generator
) -> FloatArray:
    """The truth with the odds that epsilon allows; with probability delta, the truth with a mark on it."""
    told = np.where(rng.random(is_in.shape) < special.expit(epsilon), is_in, ~is_in)
    marked = rng.random(is_in.shape) < delta
    return np.where(marked, np.where(is_in, 9.0, -9.0), np.where(told, 1.0, -1.0))


def population(
    mechanism: Mechanism, claim: Claim, factor: float, shape: tuple[int, int], seed: int
) -> SimulatedBank:
    """Models (rows) on records that differ in difficulty; epsilon is `factor` times the claimed one."""
    rng = np.random.default_rng(seed)
    is_in = rng.random(shape) < 0.5
    outputs = mechanism(is_in, factor * claim.claimed_epsilon(), claim.delta, rng)
    return SimulatedBank(outputs + 3 * rng.normal(size=shape[1]), is_in)


def one_model(
    mechanism: Mechanism, claim: Claim, factor: float, shape: tuple[int, int], seed: int
) -> SimulatedBank:
    """A target whose members are a random half, as model 0, and references that are not private at all."""
    bank = population(mechanism, claim, factor, shape, seed)
    rng = np.random.default_rng([seed, 1])
    members = rng.permutation(np.arange(shape[1]) % 2 == 0)
    middle = bank.outputs.mean(axis=0)
    bank.outputs[1:] += bank.in_mask[1:]
    bank.outputs[0] = mechanism(members, factor * claim.claimed_epsilon(), claim.delta, rng) + middle
    bank.in_mask[0] = members
    return bank


ROWS: dict[str, tuple[Any, Mechanism, Claim, tuple[int, int]]] = {
    "population, Gaussian, epsilon 4": (population, gaussian, Claim(4.0, tradeoff="gaussian"), (64, 20)),
    "population, randomized response, epsilon 1, delta 0.001": (
        population, randomized_response, Claim(1.0, 1e-3), (32, 20)),
    "population, randomized response, epsilon 0.5, delta 0": (
        population, randomized_response, Claim(0.5, 0.0), (32, 20)),
    "one model, Gaussian, epsilon 4": (one_model, gaussian, Claim(4.0, tradeoff="gaussian"), (9, 300)),
    "one model, randomized response, epsilon 1, delta 0": (
        one_model, randomized_response, Claim(1.0, 0.0), (9, 300)),
}  # fmt: skip


def share_refuted(row: str, factor: float, n_populations: int) -> float:
    """The share of the populations whose claim is refuted."""
    made, mechanism, claim, shape = ROWS[row]
    targets = (0,) if made is one_model else None
    refuted = [
        figures_of_claim(made(mechanism, claim, factor, shape, seed), claim, targets, NONE).verdict.status
        == "refuted"
        for seed in range(n_populations)
    ]
    return float(np.mean(refuted))


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--populations", type=int, default=500)
    n_populations = arguments.parse_args().populations
    print(f"share of {n_populations} populations whose claim is refuted")
    print("true epsilon: claimed   4 x claimed   population")
    for row in ROWS:
        shares = share_refuted(row, 1.0, n_populations), share_refuted(row, 4.0, min(n_populations, 100))
        print(f"{shares[0]:21.1%}   {shares[1]:11.1%}   {row}", flush=True)


if __name__ == "__main__":
    main()
