"""How often do the printed 95% intervals hold? Many populations of known truth, audited one by one.

A cell is a kind of models, a number of models and a design. Its populations share their records ("same") or
have records of their own ("new"). The truth of a figure is its mean over the populations of the cell; where
models learned nothing about the records it is known: an AUC of 0.5, an advantage of 0, a TPR equal to the
FPR. (A calibrated TPR has a threshold of other models, so its FPR is not exactly the given one.)

    python benchmarks/coverage.py --populations 200 --models 8,16 --minutes 30 --write docs/coverage.md
    python benchmarks/coverage.py --again 600 --write docs/coverage.md

The lowest of thousands of shares is low by chance. So every cell in which a figure misses what is wanted is
measured again, by the second command, with populations that are all new. Only those decide about it.

    python benchmarks/coverage.py --large --models 16 --designs balanced --write docs/coverage.md

Audits with many records repeat their attacks on a sample of them. The third command measures audits of five
times as many records as the sample has.

Reported for each figure: the share of populations whose interval contains the truth, and the mean width of
the intervals as a multiple of the mean width of intervals that know the spread over populations (1.96
standard deviations to either side, and no further than the figure can be). For cells without leakage also:
the mean AUC, and the share of headlines wholly above 0.5.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from coverage_cells import (
    ATTACKS,
    DESIGNS,
    FPRS,
    MODELS,
    N_RECORDS,
    N_RECORDS_OF_LARGE,
    Cell,
    Figures,
    Measured,
    Results,
    cells,
    key_of,
    missed,
)
from coverage_models import KINDS, N_CLASSES, NULL, logits_of, records
from coverage_page import page
from leakscope.attacks.spec import resolve_all
from leakscope.design import make_design
from leakscope.disk import scratch
from leakscope.engine.parent import start
from leakscope.evaluate.attack_figures import Scored, attack_figures
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.figure import UNDEFINED, figure_of_targets
from leakscope.evaluate.headline import half_aucs, strongest
from leakscope.evaluate.results import Figure, SetFigures
from leakscope.evaluate.uncertainty import Sample, accuracy_parts
from leakscope.leakage.bits import bits_per_record
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.parts import advantage_parts, advantage_thresholds
from leakscope.types import Design, Signals

CONFIG = EvaluationConfig("records", ATTACKS, FPRS)
NO_SET = SetFigures("", 0, UNDEFINED, UNDEFINED, (), "the most exposed records are not measured here")


class Row(NamedTuple):
    """A figure of one population: its value, 95% interval, upper end of the 99% interval, unclipped value."""

    value: float
    low: float
    high: float
    high_99: float
    unclipped: float


def seed_of(cell: Cell, *numbers: int) -> int:
    """A seed of the cell's own: cells that shared models or records would deviate from 95% together."""
    return int(np.random.SeedSequence([crc32(key_of(cell).encode()), *numbers]).generate_state(1)[0])


def n_records_of(cell: Cell) -> int:
    """How many records its audits have."""
    return N_RECORDS_OF_LARGE if cell.is_large else N_RECORDS


def population(cell: Cell, number: int) -> tuple[Signals, Design]:
    """The signals of one population's models."""
    sample, n_records = 0 if cell.records == "same" else number + 1, n_records_of(cell)
    x, y = records(seed_of(cell, 0, sample), n_records)
    design = make_design(cell.design, cell.n_models, n_records, seed_of(cell, 1, number))
    logits = logits_of(cell.kind, x, y, design.in_mask, seed_of(cell, 2, number))
    own = np.take_along_axis(logits, np.broadcast_to(y, logits.shape[:2])[..., None], 2)[..., 0]
    others = np.where(np.arange(N_CLASSES) == y[:, None], -np.inf, logits)
    log_odds = own - np.logaddexp.reduce(others, axis=2)
    arrays = {
        "log_odds": log_odds.astype(np.float32)[:, None],
        "loss": np.logaddexp(0, -log_odds).astype(np.float32)[:, None],
        "correct": (logits.argmax(axis=2) == y)[:, None],
    }
    return Signals(arrays, (1,), y), design


def audited(cell: Cell, number: int, names: tuple[str, ...] = ()) -> dict[str, Row]:
    """Name of each figure -> its row.

    `names`: of the figures that are needed; empty: all. Those that can be measured alone take less time.
    """
    signals, design = population(cell, number)
    if names and set(names) <= set(_ALONE):
        return {name: _ALONE[name](cell, signals, design) for name in names}
    n_records = design.n_records
    rows, halves = {}, {}
    for label, scored in attacked(signals, design):
        own = attack_figures(scored, CONFIG, {}, NO_SET)
        halves[label] = half_aucs(scored)
        thresholds = advantage_thresholds(scored.scores, scored.in_mask)
        unclipped = float(advantage_parts(scored.scores, scored.in_mask, thresholds).sum())
        rows[f"AUC, {label}"] = _row(cell, own.auc)
        rows[f"advantage, {label}"] = _row(cell, own.advantage, unclipped)
        for point, calibrated in zip(own.tpr_at_fpr, own.calibrated, strict=True):
            at = f"{100 * point.fpr:g}%, {label}"
            rows[f"TPR at {at}"] = _row(cell, point)
            rows[f"calibrated TPR at {at}"] = _row(cell, calibrated.tpr)
    left_out = scored.replicates.left_out
    rows["headline"] = _row(cell, strongest(halves, left_out, n_records)[1])
    sample, is_right = _sample(signals, design), signals.last("correct")
    replicates = sample.replicates_of(sample.signals.last("correct").astype(float))
    sides = {"members": design.in_mask, "non-members": ~design.in_mask}
    variances = replicates.variances(accuracy_parts, n_records)
    for (side, mask), variance in zip(sides.items(), variances, strict=True):
        rates = (is_right & mask).sum(axis=1) / mask.sum(axis=1)
        figure = figure_of_targets(
            rates,
            variance,
            lambda rate, level: clopper_pearson(round(rate * n_records / 2), n_records // 2, level),
        )
        rows[f"accuracy on {side}"] = _row(cell, figure)
    return {**rows, "bits": _bits(cell, signals, design)}


def attacked(signals: Signals, design: Design) -> Iterator[tuple[str, Scored]]:
    """The label of each attack, and every model scored by it."""
    targets, sample = np.arange(design.n_models), _sample(signals, design)
    for attack in resolve_all(ATTACKS):
        replicates = sample.replicates(attack)
        is_sample = len(sample.units) < design.n_records
        scores = attack(signals, design, targets).values if is_sample else replicates.whole.values
        yield attack.label, Scored(scores, design.in_mask, replicates, sample.units)


def _sample(signals: Signals, design: Design) -> Sample:
    """The records on which attacks are repeated: all but of large audits."""
    targets = np.arange(design.n_models)
    return Sample.of(signals, design, targets, sampled_scores=N_RECORDS * design.n_models)


def _row(cell: Cell, figure: Figure, unclipped: float | None = None) -> Row:
    """A figure with the interval for the cell's question, and its value before it was clipped."""
    of_these = ("these_low", "these_high", "these_high_99")
    ends = of_these if cell.records == "same" else ("low", "high", "high_99")
    value, low, high, high_99 = (float(getattr(figure, end) or 0) for end in ("value", *ends))
    return Row(value, low, high, high_99, value if unclipped is None else unclipped)


def _headline(cell: Cell, signals: Signals, design: Design) -> Row:
    """The AUC of the strongest attack."""
    scored = dict(attacked(signals, design))
    halves = {label: half_aucs(one) for label, one in scored.items()}
    left_out = next(iter(scored.values())).replicates.left_out
    return _row(cell, strongest(halves, left_out, design.n_records)[1])


def _bits(cell: Cell, signals: Signals, design: Design) -> Row:
    """The mean bits of an output."""
    bits = bits_per_record(signals.last("log_odds"), design.in_mask).means["bits"]
    ends = (bits.these_low, bits.these_high) if cell.records == "same" else (bits.low, bits.high)
    value, low, high = (float(x or 0) for x in (bits.value, *ends))
    return Row(value, low, high, high, value)


_ALONE = {"headline": _headline, "bits": _bits}
"""Figures that can be measured without all others."""


def known_truth(cell: Cell, figure: str) -> float | None:
    """The truth where models learned nothing about the records; None where it is unknown."""
    if cell.kind not in NULL or figure.startswith(("accuracy", "calibrated")):
        return None
    if figure.startswith(("advantage", "bits")):
        return 0.0
    return next((fpr for fpr in FPRS if f" {100 * fpr:g}%" in figure), 0.5)


def summarized(cell: Cell, rows: list[dict[str, Row]]) -> dict[str, dict[str, float | None]]:
    """Name of each figure -> its mean, coverage and relative width (None: it is the same everywhere)."""
    summary = {}
    for name in rows[0]:
        values, low, high, high_99, unclipped = np.array([row[name] for row in rows]).T
        truth = known_truth(cell, name)
        truth = float(unclipped.mean()) if truth is None else truth
        reach = 1.96 * float(unclipped.std(ddof=1))
        least = -np.inf if name == "bits" else 0  # bits may be slightly negative
        knowing = np.clip(unclipped + reach, least, 1) - np.clip(unclipped - reach, least, 1)
        summary[name] = {
            "mean": float(values.mean()),
            "coverage": float(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean()),
            "width": float((high - low).mean() / knowing.mean()) if reach else None,
            "above": float((low > truth).mean()),
            "below": float((high_99 < truth).mean()),
        }
    return summary


class Task(NamedTuple):
    """Populations of a cell to audit.

    Attributes:
        cell: the cell.
        numbers: of the populations.
        names: of the figures to measure; empty: all.
        part: of the cell's results: "figures", or "again" for new populations.
    """

    cell: Cell
    numbers: range
    names: tuple[str, ...] = ()
    part: str = "figures"


def tasks(chosen: list[Cell], n_populations: int, n_again: int | None, results: Results) -> Iterator[Task]:
    """What is not measured yet; with `n_again`, new populations of every cell in which a figure misses."""
    for cell in chosen:
        done = results.get(key_of(cell))
        if done is None:
            if n_again is None:
                yield Task(cell, range(n_populations))
        elif n_again is None:
            yield from _stale(cell, done)
        elif "again" not in done and missed(key_of(cell), done["figures"]):
            first = done["populations"]
            yield Task(cell, range(first, first + n_again), part="again")


def _stale(cell: Cell, done: Measured) -> Iterator[Task]:
    """The figures that earlier code measured, of the same populations; the others stay as they are."""
    if "before" not in done:
        return
    names, n = tuple(done["before"]), done["populations"]
    if "again" in done:
        yield Task(cell, range(n, n + done["again"]["populations"]), names, "again")
    yield Task(cell, range(n), names)


def measured(due: list[Task], results: Results, minutes: float, n_workers: int) -> Iterator[Results]:
    """The results after each task, until the time is over."""
    until = time.monotonic() + 60 * minutes
    os.environ["OMP_NUM_THREADS"] = "1"  # one population per process
    with ProcessPoolExecutor(
        n_workers, multiprocessing.get_context("spawn"), _prepare_worker, (os.getpid(),)
    ) as pool:
        # All at once: a worker that is done with a cell does not wait for the others.
        futures = [
            [pool.submit(audited, task.cell, number, task.names) for number in task.numbers] for task in due
        ]
        for task, own in zip(due, futures, strict=True):
            try:
                rows = [future.result(timeout=max(until - time.monotonic(), 0)) for future in own]
            except TimeoutError:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            _keep(task, summarized(task.cell, rows), results)
            print(key_of(task.cell), task.part, f"{until - time.monotonic():.0f} s left", flush=True)
            yield results


def _keep(task: Task, figures: Figures, results: Results) -> None:
    """Puts what a task measured where it belongs."""
    done = results.setdefault(key_of(task.cell), {})
    part = done if task.part == "figures" else done.setdefault("again", {})
    part["populations"] = len(task.numbers)
    part["figures"] = {**part.get("figures", {}), **{n: figures[n] for n in task.names or figures}}
    if part is done:
        done.pop("before", None)


def _prepare_worker(parent: int) -> None:
    """Ends with its parent. Uses one thread: otherwise, each worker uses all cores for blocks of records."""
    start(parent, b"")
    scratch._THREADS = 1


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--populations", type=int, default=200)
    parser.add_argument("--again", type=int, help="measure what misses again, with so many new populations")
    parser.add_argument("--models", default=",".join(map(str, MODELS)))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--designs", default=",".join(DESIGNS))
    parser.add_argument(
        "--large", action="store_true", help="audits that repeat attacks on a fifth of their records"
    )
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=Path("docs/results/coverage.json"))
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    models, kinds, designs = (option.split(",") for option in (given.models, given.kinds, given.designs))
    chosen = list(cells(list(map(int, models)), kinds, designs, is_large=given.large))
    results: Results = json.loads(given.results.read_text()) if given.results.exists() else {}
    due = list(tasks(chosen, given.populations, given.again, results))
    given.results.parent.mkdir(parents=True, exist_ok=True)
    for so_far in measured(due, results, given.minutes, given.workers):
        given.results.write_text(json.dumps(so_far, indent=1))
    if given.write:
        given.write.write_text(page(json.loads(given.results.read_text())))


if __name__ == "__main__":
    main()
