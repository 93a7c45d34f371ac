"""How should the scores of a unit's records become one score of the unit?

Compared are the sum and the mean of the records' scores, the sum divided by the root of the number of
records, Kish's design effect (the sum divided by 1 + (n - 1) r, where r is how the log-odds of a unit's
records are correlated over models), and the attack on the unit's mean signals. Printed is the mean AUC over
targets, for simulated units and for digits in made-up units of unequal size.

    python benchmarks/groups_rules.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import leakscope
from leakscope.attacks.spec import resolve_all
from leakscope.design import make_design, number_units, unit_means, unit_sizes, unit_sums
from leakscope.runs.run import open_run
from leakscope.stats.roc import auc
from leakscope.types import Design, Signals

ATTACKS = ("eb_lira", "lira", "bavaria", "loss", "rmia", "calibrated")
N_MODELS, N_UNITS, N_SEEDS = 16, 300, 4
RULES = ("sum", "mean", "sum / root", "design effect", "mean signals")


def unequal(n_units: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of records, 5 on average."""
    return np.minimum(rng.geometric(0.2, n_units), 30)


def simulated(seed: int, correlation: float) -> tuple[Signals, Design]:
    """Log-odds of records whose gaps and spreads differ; noise is partly the unit's own."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.repeat(np.arange(N_UNITS), unequal(N_UNITS, rng))).astype(np.str_)
    units = number_units(names)
    design = make_design("pairs", N_MODELS, len(units), seed, units=units)
    shared = rng.normal(size=(N_MODELS, N_UNITS))[:, units]
    noise = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(size=design.in_mask.shape)
    gap, spread = 0.4 * rng.gamma(0.5, 2, len(units)), np.exp(0.5 * rng.normal(size=len(units)))
    log_odds = 3 + 1.5 * rng.normal(size=len(units)) + spread * (noise + gap * design.in_mask)
    arrays = {"log_odds": log_odds[:, None], "loss": np.logaddexp(0, -log_odds)[:, None]}
    return Signals(arrays, (1,), np.arange(len(units)) % 2), design


def digits(alike: bool) -> tuple[Signals, Design]:
    """Perceptrons trained on digits, in units at random or of neighbors along a principal axis."""
    records = leakscope.load("digits")
    rng, flat = np.random.default_rng(0), records.features.reshape(len(records), -1).astype(np.float64)
    axis = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)[0][:, 0]
    order = np.argsort(axis) if alike else rng.permutation(len(records))
    ends = np.cumsum(unequal(len(records), rng))
    names = np.empty(len(records), dtype="U6")
    names[order] = np.searchsorted(ends, np.arange(len(records)), side="right").astype(np.str_)
    recipe = leakscope.Recipe(net="mlp", net_options=(("width", 128),), optimizer="adam", lr=0.003, epochs=60)
    with tempfile.TemporaryDirectory() as folder:
        out, own = Path(folder) / "run", replace(records, groups={"writer": names})
        leakscope.audit(
            own, recipe, out, models=N_MODELS, design="pairs", unit="writer", attacks=["lira", "loss"]
        )
        run = open_run(out)
        arrays = {name: np.array(values) for name, values in run.signals.arrays.items()}
        return Signals(arrays, run.signals.epochs, np.array(run.signals.labels)), run.design


def correlation_of(log_odds: np.ndarray, design: Design) -> float:
    """Of two records of one unit, over the models of one side."""
    deviations = np.zeros(log_odds.shape)
    for side in (design.in_mask, ~design.in_mask):
        mean = np.where(side, log_odds, 0).sum(axis=0) / side.sum(axis=0)
        deviations += np.where(side, log_odds - mean, 0)
    standard = deviations / np.maximum(deviations.std(axis=0), 1e-9)
    sums, sizes = np.stack([unit_sums(row, design.units) for row in standard]), unit_sizes(design.units)
    pairs = len(standard) * (sizes * (sizes - 1)).sum()
    return max(float(((sums**2).sum() - (standard**2).sum()) / pairs), 0.0)


def aucs_by_rule(attack: str, signals: Signals, design: Design) -> Iterator[float]:
    """The mean AUC over targets, in the order of `RULES`; complements are the partners of all records."""
    (own,), in_mask, sizes = resolve_all([attack]), design.of_units.in_mask, unit_sizes(design.units)
    scores = np.clip(own(signals, Design(design.in_mask)).values, -1e6, 1e6)
    sums = np.stack([unit_sums(row, design.units) for row in scores])
    shared = correlation_of(signals.last("log_odds").astype(np.float64), design)
    means = {name: unit_means(values[:, 0], design.units)[:, None] for name, values in signals.arrays.items()}
    of_means = Signals(means, (1,), np.arange(len(sizes)) % 2)
    for combined in (
        sums,
        sums / sizes,
        sums / np.sqrt(sizes),
        sums / (1 + (sizes - 1) * shared),
        own(of_means, design.of_units).values,
    ):
        yield float(np.mean([auc(*row) for row in zip(combined, in_mask, strict=True)]))


def main() -> None:
    """Prints a table."""
    print(f"| records | attack | {' | '.join(RULES)} |\n|---|---|{'---|' * len(RULES)}")
    cases = {
        f"simulated, correlation {share:g}": [simulated(seed, share) for seed in range(N_SEEDS)]
        for share in (0.0, 0.3, 0.8)
    }
    cases |= {"digits, random units": [digits(False)], "digits, units of similar digits": [digits(True)]}
    for case, banks in cases.items():
        for attack in ATTACKS:
            aucs = np.mean([list(aucs_by_rule(attack, *bank)) for bank in banks], axis=0)
            print(f"| {case} | {attack} | {' | '.join(f'{value:.3f}' for value in aucs)} |", flush=True)


if __name__ == "__main__":
    main()
