"""The mean AUC of every attack where nothing leaks: `python benchmarks/null_aucs.py --write`.

Log-odds are simulated: a record's own difficulty plus noise of each model, Gaussian or heavy-tailed, whether
the model was trained on the record or not. Each attack is repeated on new populations until the standard
error of its mean AUC is small enough; chance that it shares with `loss` is taken out. `--write` writes
docs/null_aucs.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.registry import attack_classes
from leakscope.attacks.thresholds import LossThreshold
from leakscope.design import make_design
from leakscope.signals.of_arrays import signals_of_logits
from leakscope.signals.registry import CLASSIFICATION
from leakscope.stats.roc import auc
from leakscope.types import Design, Signals

PAGE = Path(__file__).parents[1] / "docs" / "null_aucs.md"
NEEDS = ("log_odds", "loss", "correct", "logits")
DESIGNS, MODELS, NOISES = ("balanced", "pairs"), (8, 16), ("Gaussian", "heavy-tailed")
N_RECORDS = 2_000
WANTED, ALLOWED = 0.0005, 0.002
"""Standard error of a mean AUC; how far from 0.5 it may be."""
_FEWEST = 20


_INTRODUCTION = """\
# Attacks where nothing leaks
An attack that ranks members above non-members of models that reveal nothing would report leakage that is not
there. This page has the mean AUC of every attack that reads a classifier's outputs alone, on simulated
log-odds: a record's own difficulty plus noise of each model, whether the model was trained on the record or
not. *Heavy-tailed* is Student's t distribution with 2 degrees of freedom. A column is named by the noise, the
design and the number of models. Every model of a population is the target in turn, on {records:,} records
(`python benchmarks/null_aucs.py --write`). `eb_lira` learns the kinds of records from 500 of them, to save
time. The expected AUC of `loss` is exactly 0.5, so the chance that another attack's AUC shares with that of
`loss` is taken out."""

_SUMMARY = """\
Of {cells} means, {within} are within {allowed:g} of 0.5, and all within {worst:.4f}. Their standard errors
are at most {error:.5f}, from {fewest:,} to {most:,} populations each. [Coverage](coverage.md) says how often
intervals hold."""


class Cell(NamedTuple):
    """A kind of population."""

    noise: str
    design: str
    n_models: int


CELLS = tuple(Cell(*parts) for parts in product(NOISES, DESIGNS, MODELS))


class MeanAuc(NamedTuple):
    """The mean over populations of an attack's mean AUC over targets, and its standard error."""

    mean: float
    error: float
    populations: int


def attacks() -> list[Attack]:
    """Every registered attack on classifiers that reads outputs alone, and the offline variants."""
    every = [cls() for cls in attack_classes().values()]
    usable = [
        one for one in every if one.reads(CLASSIFICATION) and set(one.reads(CLASSIFICATION)) <= set(NEEDS)
    ]
    offline = [type(one)(online=False) for one in usable if hasattr(one, "online")]  # type: ignore[call-arg]
    return [*usable, *offline]


def population(cell: Cell, seed: int, n_records: int = N_RECORDS) -> tuple[Signals, Design]:
    """Models that reveal nothing; three quarters of the records have the first of two labels."""
    design = make_design(cell.design, cell.n_models, n_records, seed)
    rng = np.random.default_rng([seed, 1])
    draw = rng.standard_normal if cell.noise == "Gaussian" else lambda size: rng.standard_t(2, size)
    labels = (np.arange(n_records) % 4 == 3).astype(np.int64)
    log_odds = 1 + 1.5 * draw(n_records) + draw((cell.n_models, n_records))
    of_first = np.where(labels == 0, log_odds, -log_odds)
    logits = np.stack([of_first, np.zeros_like(of_first)], axis=-1)
    flat = signals_of_logits(logits.reshape(-1, 2), np.tile(labels, cell.n_models), NEEDS)
    arrays = {name: v.reshape(cell.n_models, 1, n_records, *v.shape[1:]) for name, v in flat.items()}
    return Signals(arrays, (1,), labels), design


def _quick(attack: Attack) -> Attack:
    """EB-LiRA learns the kinds from fewer records, to save time."""
    return replace(attack, fitted_records=500) if isinstance(attack, EbLira) else attack


def mean_auc(attack: Attack, signals: Signals, design: Design) -> float:
    """Over all models as targets."""
    scores = _quick(attack)(signals, design).values
    return float(np.mean([auc(own, members) for own, members in zip(scores, design.in_mask, strict=True)]))


def measured(
    cell: Cell, asked: list[Attack], wanted: float = WANTED, most: int = 10_000
) -> dict[str, MeanAuc]:
    """Attack -> its mean AUC; populations are drawn until every standard error is small enough."""
    aucs: dict[str, list[float]] = {attack.label: [] for attack in asked}
    of_loss: list[float] = []
    left = list(asked)
    for seed in range(most):
        signals, design = population(cell, seed)
        of_loss.append(mean_auc(LossThreshold(), signals, design))
        for attack in left:
            aucs[attack.label].append(mean_auc(attack, signals, design))
        left = [one for one in left if not _is_enough(aucs[one.label], of_loss, wanted)]
        if not left:
            break
    return {label: summary(values, of_loss) for label, values in aucs.items()}


def summary(aucs: list[float], of_loss: list[float]) -> MeanAuc:
    """Of the mean AUCs of populations.

    A loss is independent of the design where nothing leaks, so the expected AUC of `loss` is exactly 0.5. The
    chance by which it differs in a population is taken from the AUCs of attacks that share it.
    """
    values, chance = np.array(aucs), np.array(of_loss[: len(aucs)]) - 0.5
    if np.allclose(values - chance, 0.5):  # loss itself: nothing would remain
        return MeanAuc(float(values.mean()), _error(values), len(values))
    slope = np.cov(values, chance)[0, 1] / chance.var(ddof=1)
    rest = values - slope * chance
    return MeanAuc(float(rest.mean()), _error(rest), len(rest))


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _is_enough(aucs: list[float], of_loss: list[float], wanted: float) -> bool:
    return len(aucs) >= _FEWEST and summary(aucs, of_loss).error <= wanted


def page(results: dict[Cell, dict[str, MeanAuc]]) -> str:
    """docs/null_aucs.md."""
    found = [one for own in results.values() for one in own.values()]
    worst = max(abs(one.mean - 0.5) for one in found)
    within = sum(abs(one.mean - 0.5) <= ALLOWED for one in found)
    largest = max(one.error for one in found)
    heads = [f"{cell.noise}, {cell.design}, {cell.n_models}" for cell in results]
    lines = ["| attack | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for label in next(iter(results.values())):
        lines.append(
            f"| `{label}` | " + " | ".join(f"{own[label].mean:.4f}" for own in results.values()) + " |"
        )
    fewest, most = min(one.populations for one in found), max(one.populations for one in found)
    summary_of_all = _SUMMARY.format(
        cells=len(found), within=within, allowed=ALLOWED, worst=worst, error=largest, fewest=fewest, most=most
    )
    return "\n\n".join([_INTRODUCTION.format(records=N_RECORDS), summary_of_all, "\n".join(lines)]) + "\n"


def main() -> None:
    """Measures all cells and prints or writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write docs/null_aucs.md")
    parser.add_argument("--error", type=float, default=WANTED, help="largest standard error")
    options = parser.parse_args()
    results = {}
    for cell in CELLS:
        started = time.perf_counter()
        results[cell] = measured(cell, attacks(), options.error)
        print(*cell, f"{time.perf_counter() - started:.0f} s", flush=True)
    text = page(results)
    if options.write:
        PAGE.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
