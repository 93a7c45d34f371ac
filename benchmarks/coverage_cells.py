"""What `coverage.py` measures: cells of populations, and what is wanted of the intervals in each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from coverage_models import NULL

N_RECORDS = 500
N_RECORDS_OF_LARGE = 2_500  # of audits that repeat their attacks on a sample of 500
MODELS, DESIGNS = (8, 16, 32, 64), ("balanced", "bernoulli", "pairs")
ATTACKS = ("loss", "lira", "eb_lira")
FPRS = (0.1, 0.01)
WANTED = 0.93  # the least share of populations in which an interval should be seen to hold
MOST_BIAS = 0.002  # of the mean AUC of an attack where nothing leaks
MOST_WRONG = 0.035  # the largest share of null headlines above 0.5, and of passes of a model at its limit
LARGE = "|large"
"""At the end of the name of a cell of large audits."""
GATED = ("AUC,", "advantage,", "TPR at")

Figures = dict[str, dict[str, float]]
Measured = dict[str, Any]
"""Number of `populations`, and `figures` by name; under `again`, the same of new populations. `before` names
the figures that the code computed otherwise when the cell was measured, each with what has changed; the next
run measures them once more."""
Results = dict[str, Measured]


class Cell(NamedTuple):
    """What the populations of a cell have in common."""

    kind: str
    n_models: int
    design: str
    records: str
    is_large: bool = False


def key_of(cell: Cell) -> str:
    """The cell's name in the results."""
    return "|".join(map(str, cell[:4])) + LARGE * cell.is_large


def cells(
    models: list[int], kinds: list[str], designs: list[str], *, is_large: bool = False
) -> Iterator[Cell]:
    """All cells, small populations first."""
    for n_models, kind, design, which in product(models, kinds, designs, ("same", "new")):
        yield Cell(kind, n_models, design, which, is_large)


def missed(key: str, figures: Figures) -> dict[str, float]:
    """What misses what is wanted: question -> the share of populations."""
    shares = {f"{name} holds": one["coverage"] for name, one in figures.items() if one["coverage"] < WANTED}
    for name, one in figures.items():
        if name.startswith(GATED) and one["below"] > MOST_WRONG:
            shares[f"{name} passes at its limit"] = one["below"]
    if key.startswith(NULL):
        if figures["headline"]["above"] > MOST_WRONG:
            shares["headline above 0.5"] = figures["headline"]["above"]
        for name, one in figures.items():
            if name.startswith("AUC") and abs(one["mean"] - 0.5) > MOST_BIAS:
                shares[f"{name}, mean"] = one["mean"]
    return shares
