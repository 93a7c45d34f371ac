"""Bits of made-up records whose leakage is known: `python benchmarks/bits_of_known_truth.py`.

Outputs are normal, with the same spread IN and OUT, so a record's bits follow from its gap alone, in standard
deviations over models. Records differ in how easy they are; in some populations their outputs also differ
in spread, by a factor of about three from the quietest tenth to the loudest.

Printed are the truth, the measured figure averaged over populations, and how often its 95% interval for
these records lies above and below the truth; for the mean over records and for the most exposed 1%.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.design import make_design
from leakscope.leakage.bits import RecordBits, bits_per_record, most_exposed_mean
from leakscope.leakage.inequalities import information_on_one_axis

N_RECORDS = 1_000
EASE = 1.5  # standard deviation over records of their mean output
UNEQUAL = 0.5  # standard deviation over records of the logarithm of their spread

Drawn = Callable[[np.random.Generator], FloatArray]


class Population(NamedTuple):
    """Records of a kind.

    Attributes:
        name: what is printed.
        gaps: of the records, in standard deviations over models; float64 (records,).
        spread: standard deviation over records of the logarithm of their outputs' spread.
    """

    name: str
    gaps: Drawn
    spread: float = 0.0


def _alike(gap: float) -> Drawn:
    return lambda _: np.full(N_RECORDS, gap)


def _few(gap: float, others: float, share: float) -> Drawn:
    return lambda _: np.where(np.arange(N_RECORDS) < share * N_RECORDS, gap, others)


POPULATIONS = (
    Population("all leak alike, equal spread", _alike(0.8)),
    Population("all leak alike, unequal spread", _alike(0.8), UNEQUAL),
    Population("all leak more, unequal spread", _alike(1.5), UNEQUAL),
    Population("exponential, equal spread", lambda rng: rng.exponential(0.8, N_RECORDS)),
    Population("exponential, unequal spread", lambda rng: rng.exponential(0.8, N_RECORDS), UNEQUAL),
    Population("3% leak much, unequal spread", _few(3.0, 0.2, 0.03), UNEQUAL),
)


def measured(population: Population, n_models: int, seed: int) -> tuple[FloatArray, RecordBits]:
    """The true bits of each record, and what is measured."""
    rng = np.random.default_rng([seed, n_models])
    gaps, spread = population.gaps(rng), np.exp(population.spread * rng.normal(size=N_RECORDS))
    in_mask = make_design("balanced", n_models, N_RECORDS, seed).in_mask
    outputs = EASE * rng.normal(size=N_RECORDS) + spread * (rng.normal(size=in_mask.shape) + gaps * in_mask)
    one = np.ones(N_RECORDS)
    return information_on_one_axis(gaps, one, one).value / np.log(2), bits_per_record(outputs, in_mask)


def row(population: Population, n_models: int, n_populations: int) -> str:
    """One row of the table."""
    means, exposed = [], []
    for seed in range(n_populations):
        truth, found = measured(population, n_models, seed)
        of_mean, highest = found.means["bits"], found.most_exposed
        means.append([truth.mean(), of_mean.value, of_mean.these_low, of_mean.these_high])
        exposed.append([most_exposed_mean(truth), highest.value, highest.these_low, highest.these_high])
    return f"| {population.name} | {n_models} | {_cells(means)} | {_cells(exposed)} |"


def _cells(figures: list[list[float | None]]) -> str:
    truth, value, low, high = np.array(figures, dtype=float).T
    above, below = (low > truth).mean(), (high < truth).mean()
    return f"{truth.mean():.3f} | {value.mean():.3f} | {above:.0%}, {below:.0%}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", default="16,64")
    parser.add_argument("--populations", type=int, default=20)
    given = parser.parse_args()
    print(
        "| records | models | mean bits, true | measured | interval above, below | most exposed 1%, true",
        end="",
    )
    print(" | measured | interval above, below |\n|---|---:|---:|---:|---:|---:|---:|---:|")
    for n_models in map(int, given.models.split(",")):
        for population in POPULATIONS:
            print(row(population, n_models, given.populations), flush=True)


if __name__ == "__main__":
    main()
