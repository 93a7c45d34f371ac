"""How often do intervals hold where members are units with several records each, of unequal number?

The records of a unit are alike and are in a training set together, so they are not independent. Populations
of known truth are audited twice: by unit, as an audit with `unit` does, and record by record, as if every
record had been drawn on its own. The truth of a figure is its mean over the populations; where models learned
nothing about the records, it is an AUC of 0.5.

    python benchmarks/groups_coverage.py --populations 200 --models 8
    python benchmarks/groups_coverage.py --null 4000 --models 8

Populations share their units ("these"), or have units of their own ("like these").
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple
from zlib import crc32

import numpy as np

from leakscope.attacks.spec import resolve_all
from leakscope.design import make_design, number_units
from leakscope.evaluate.attack_figures import Scored
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.headline import half_aucs, strongest
from leakscope.evaluate.predictions import accuracy_figures
from leakscope.evaluate.results import Figure
from leakscope.evaluate.uncertainty import Sample
from leakscope.stats.intervals import Interval, delong
from leakscope.stats.parts import auc_parts, ranked
from leakscope.stats.roc import auc
from leakscope.stats.two_way import NoLeakage
from leakscope.types import Design, Signals

N_UNITS, N_FEATURES, MOST_RECORDS = 160, 8, 15
ATTACKS = ("loss", "lira", "eb_lira")
NULL, LEAKY = "ignore the data", "forest"


class Cell(NamedTuple):
    """What the populations of a cell have in common."""

    kind: str
    n_models: int
    question: str


class Row(NamedTuple):
    """A figure of one population, with its interval."""

    value: float
    low: float
    high: float


def people(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and units: rows of one person scatter around the person, who has one label mostly."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.geometric(0.25, N_UNITS), MOST_RECORDS)
    units = rng.permutation(np.repeat(np.arange(N_UNITS), sizes))
    centers, labels = rng.normal(size=(N_UNITS, N_FEATURES)), rng.integers(2, size=N_UNITS)
    x = centers[units] + 0.4 * rng.normal(size=(len(units), N_FEATURES))
    y = np.where(rng.random(len(units)) < 0.1, 1 - labels[units], labels[units])
    return x, y, number_units(units.astype(np.str_))


def log_odds_of(kind: str, x: np.ndarray, y: np.ndarray, members: np.ndarray, seed: int) -> np.ndarray:
    """Of the true class, by one model trained on the members; (records,)."""
    if kind == NULL:
        rng = np.random.default_rng(seed)
        of_class_one = 1.5 * x @ rng.normal(0, 1 / np.sqrt(N_FEATURES), N_FEATURES) + rng.normal()
    else:
        from sklearn.ensemble import ExtraTreesClassifier

        forest = ExtraTreesClassifier(15, min_samples_leaf=4, random_state=seed).fit(x[members], y[members])
        share = np.clip(forest.predict_proba(x)[:, 1], 0.01, 0.99)
        of_class_one = np.log(share / (1 - share))
    return np.where(y == 1, of_class_one, -of_class_one)


def population(cell: Cell, number: int) -> tuple[Signals, Design]:
    """The signals of one population's models."""
    own = crc32("|".join(map(str, cell)).encode())
    x, y, units = people(own + (0 if cell.question == "these" else number + 1))
    design = make_design("balanced", cell.n_models, len(y), own + number, units=units)
    log_odds = np.stack([
        log_odds_of(cell.kind, x, y, members, (own + 1_000 * number + model) % 2**31)
        for model, members in enumerate(design.in_mask)
    ])  # fmt: skip
    arrays = {
        "log_odds": log_odds.astype(np.float32)[:, None],
        "loss": np.logaddexp(0, -log_odds).astype(np.float32)[:, None],
        "correct": (log_odds > 0)[:, None],
    }
    return Signals(arrays, (1,), y.astype(np.int64)), design


def figures_of(signals: Signals, design: Design, attacks: tuple[str, ...]) -> Iterator[tuple[str, Figure]]:
    """AUC and accuracy with the intervals of an audit."""
    targets = np.arange(design.n_models)
    sample, in_mask = Sample.of(signals, design, targets), design.of_units.in_mask
    halves = {}
    for attack in resolve_all(attacks):
        replicates = sample.replicates(attack)
        scores = replicates.whole.values
        (variance,) = replicates.variances(_auc_parts, design.of_units.n_records, [NoLeakage(0.5)])
        aucs = np.array([auc(*row) for row in zip(scores, in_mask, strict=True)])
        yield f"AUC, {attack.label}", figure_of_targets(aucs, variance, _no_interval)
        halves[attack.label] = half_aucs(Scored(scores, in_mask, replicates, sample.units))
    yield "headline", strongest(halves, replicates.left_out, design.of_units.n_records)[1]
    accuracy = accuracy_figures(signals, design, sample)
    assert accuracy is not None
    yield "accuracy on non-members", accuracy.nonmembers
    yield "AUC of one model, loss", _of_one_model(signals, design)


def _auc_parts(scores: np.ndarray, in_mask: np.ndarray) -> np.ndarray:
    return auc_parts(ranked(scores, in_mask))[None]


def _no_interval(_value: float, _level: float) -> Interval:
    raise AssertionError("there are several targets")


def _of_one_model(signals: Signals, design: Design) -> Figure:
    """DeLong's interval of the first model alone, which is all that an audit of a given model has."""
    first = np.array([0])
    scores = resolve_all(["loss"])[0](signals, design, first).values[0]
    value, _, interval = delong(scores, design.of_units.in_mask[0], 0.95)
    return Figure(value, interval.low, interval.high, None, interval.low, interval.high)


def audited(cell: Cell, number: int) -> dict[str, Row]:
    """Figures by unit, and those that take records for independent."""
    signals, design = population(cell, number)
    ends = ("these_low", "these_high") if cell.question == "these" else ("low", "high")
    alone = Design(design.in_mask)
    return {
        f"{level}: {name}": Row(*(float(getattr(figure, end) or 0) for end in ("value", *ends)))
        for level, own, attacks in (("by unit", design, ATTACKS), ("by record", alone, ATTACKS[:2]))
        for name, figure in figures_of(signals, own, attacks)
    }


def summary(cell: Cell, n_populations: int) -> Iterator[str]:
    """One line per figure: its mean, the share of intervals that hold, and their mean width."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for number in range(n_populations):
        for name, row in audited(cell, number).items():
            rows[name].append(row)
    for name, own in rows.items():
        values, low, high = np.array(own).T
        is_auc = "AUC" in name or "headline" in name
        truth = 0.5 if cell.kind == NULL and is_auc else float(values.mean())
        holds = ((low <= truth) & (truth <= high)).mean()
        yield (
            f"| {cell.kind} | {cell.n_models} | {cell.question} | {name} | {values.mean():.4f} | "
            f"{values.std() / np.sqrt(len(values)):.4f} | {holds:.1%} | {(high - low).mean():.3f} |"
        )


def null_means(n_models: int, n_populations: int) -> Iterator[str]:
    """The mean AUC of each attack over populations that learned nothing, with its standard error."""
    aucs: dict[str, list[float]] = defaultdict(list)
    for number in range(n_populations):
        signals, design = population(Cell(NULL, n_models, "like these"), number)
        for attack in resolve_all(ATTACKS):
            rows = zip(attack(signals, design).values, design.of_units.in_mask, strict=True)
            aucs[attack.label].append(float(np.mean([auc(*row) for row in rows])))
    for label, own in aucs.items():
        error = np.std(own) / np.sqrt(len(own))
        over = f"{n_models} models, {len(own):,} populations"
        yield f"{label}: mean AUC {np.mean(own):.4f} ± {error:.4f} ({over})"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", type=int, default=200)
    parser.add_argument("--models", default="8,16", help="numbers of models, with commas")
    parser.add_argument("--null", type=int, default=0, help="populations for the mean AUC without leakage")
    given = parser.parse_args()
    models = [int(number) for number in given.models.split(",")]
    for line in (line for n_models in models if given.null for line in null_means(n_models, given.null)):
        print(line, flush=True)
    if given.null:
        return
    print("| models that | models | for units | figure | mean | standard error | holds | width |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, n_models, question in product((NULL, LEAKY), models, ("these", "like these")):
        for line in summary(Cell(kind, n_models, question), given.populations):
            print(line, flush=True)


if __name__ == "__main__":
    main()
