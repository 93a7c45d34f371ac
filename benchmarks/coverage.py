"""How often do the printed 95% intervals hold? Many populations of known truth, audited one by one.

A cell is a kind of models, a number of models and a design. Its populations share their records ("same") or
have records of their own ("new"). The truth of a figure is its mean over the populations of the cell; where
models learned nothing about the records it is known: an AUC of 0.5, an advantage of 0, a TPR equal to the
FPR. (A calibrated TPR has a threshold of other models, so its FPR is not exactly the given one.)

    python benchmarks/coverage.py --populations 200 --models 8,16 --minutes 30 --write docs/coverage.md
    python benchmarks/coverage.py --again 600 --write docs/coverage.md

The lowest of thousands of shares is low by chance. So every cell in which a figure misses what is wanted is
measured again, by the second command, with populations that are all new. Only those decide about it.

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
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.stats import binom

from coverage_models import KINDS, N_CLASSES, N_FEATURES, NULL, logits_of, records
from leakscope.attacks.spec import resolve_all
from leakscope.design import make_design
from leakscope.disk import scratch
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

N_RECORDS = 500
MODELS, DESIGNS = (8, 16, 32, 64), ("balanced", "bernoulli", "pairs")
ATTACKS = ("loss", "lira", "eb_lira")
FPRS = (0.1, 0.01)
WANTED = 0.93  # the least share of populations in which an interval should be seen to hold
MOST_BIAS = 0.002  # of the mean AUC of an attack where nothing leaks
MOST_WRONG = 0.035  # the largest share of null headlines above 0.5, and of passes of a model at its limit
CONFIG = EvaluationConfig("records", ATTACKS, FPRS)
NO_SET = SetFigures("", 0, UNDEFINED, UNDEFINED, (), "the most exposed records are not measured here")


Figures = dict[str, dict[str, float]]
Measured = dict[str, Any]
"""Number of `populations`, and `figures` by name; under `again`, the same of new populations."""
Results = dict[str, Measured]


class Cell(NamedTuple):
    """What the populations of a cell have in common."""

    kind: str
    n_models: int
    design: str
    records: str


def key_of(cell: Cell) -> str:
    """The cell's name in the results."""
    return "|".join(map(str, cell))


def seed_of(cell: Cell, *numbers: int) -> int:
    """A seed of the cell's own: cells that shared models or records would deviate from 95% together."""
    return int(np.random.SeedSequence([crc32(key_of(cell).encode()), *numbers]).generate_state(1)[0])


def population(cell: Cell, number: int) -> tuple[Signals, Design]:
    """The signals of one population's models."""
    sample = 0 if cell.records == "same" else number + 1
    x, y = records(seed_of(cell, 0, sample), N_RECORDS)
    design = make_design(cell.design, cell.n_models, N_RECORDS, seed_of(cell, 1, number))
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


def audited(cell: Cell, number: int) -> dict[str, tuple[float, ...]]:
    """Name of each figure -> value, low, high, 99% high for the cell's question, and the unclipped value."""
    signals, design = population(cell, number)
    sample = Sample.of(signals, design, np.arange(design.n_models))
    figures: dict[str, Figure] = {}
    halves, unclipped = {}, {}
    for attack in resolve_all(ATTACKS):
        replicates = sample.replicates(attack)
        scores = replicates.whole.values  # the sample has all records
        scored = Scored(scores, design.in_mask, replicates, sample.units)
        own = attack_figures(scored, CONFIG, {}, NO_SET)
        halves[attack.label] = half_aucs(scored)
        figures |= {f"AUC, {attack.label}": own.auc, f"advantage, {attack.label}": own.advantage}
        thresholds = advantage_thresholds(scores, design.in_mask)
        unclipped[f"advantage, {attack.label}"] = advantage_parts(scores, design.in_mask, thresholds).sum()
        for point, calibrated in zip(own.tpr_at_fpr, own.calibrated, strict=True):
            at = f"{100 * point.fpr:g}%, {attack.label}"
            figures |= {f"TPR at {at}": point, f"calibrated TPR at {at}": calibrated.tpr}
    figures["headline"] = strongest(halves, replicates.left_out, N_RECORDS)[1]
    correct = sample.replicates_of(signals.last("correct").astype(float))
    for side, mask, variance in zip(("members", "non-members"), (design.in_mask, ~design.in_mask),
                                    correct.variances(accuracy_parts, N_RECORDS), strict=True):  # fmt: skip
        rates = (signals.last("correct") & mask).sum(axis=1) / mask.sum(axis=1)
        figures[f"accuracy on {side}"] = figure_of_targets(
            rates,
            variance,
            lambda rate, level: clopper_pearson(round(rate * N_RECORDS / 2), N_RECORDS // 2, level),
        )
    of_these = ("these_low", "these_high", "these_high_99")
    ends = of_these if cell.records == "same" else ("low", "high", "high_99")
    rows = {
        name: (
            *(float(getattr(figure, end) or 0) for end in ("value", *ends)),
            float(unclipped.get(name, figure.value or 0)),
        )
        for name, figure in figures.items()
    }
    return {**rows, "bits": _bits(cell, signals, design)}


def _bits(cell: Cell, signals: Signals, design: Design) -> tuple[float, ...]:
    """The mean bits of an output, with the interval for the cell's question."""
    bits = bits_per_record(signals.last("log_odds"), design.in_mask).means["bits"]
    ends = (bits.these_low, bits.these_high) if cell.records == "same" else (bits.low, bits.high)
    value, low, high = (float(x or 0) for x in (bits.value, *ends))
    return value, low, high, high, value


def known_truth(cell: Cell, figure: str) -> float | None:
    """The truth where models learned nothing about the records; None where it is unknown."""
    if cell.kind not in NULL or figure.startswith(("accuracy", "calibrated")):
        return None
    if figure.startswith(("advantage", "bits")):
        return 0.0
    return next((fpr for fpr in FPRS if f" {100 * fpr:g}%" in figure), 0.5)


def summarized(cell: Cell, rows: list[dict[str, tuple[float, ...]]]) -> dict[str, dict[str, float | None]]:
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


def cells(models: list[int], kinds: list[str], designs: list[str]) -> Iterator[Cell]:
    """All cells, small populations first."""
    for n_models, kind, design, which in product(models, kinds, designs, ("same", "new")):
        yield Cell(kind, n_models, design, which)


class Round(NamedTuple):
    """Populations to audit: of every cell that has none, or again of every cell in which a figure misses."""

    numbers: range
    is_again: bool

    def is_due(self, cell: Cell, results: dict[str, Measured]) -> bool:
        done = results.get(key_of(cell))
        if not self.is_again:
            return done is None
        return done is not None and "again" not in done and bool(missed(key_of(cell), done["figures"]))


def measured(chosen: list[Cell], this: Round, minutes: float, n_workers: int, out: Path) -> None:
    """Audits the populations cell by cell until the time is over; writes what is finished to `out`."""
    until = time.monotonic() + 60 * minutes
    results: dict[str, Measured] = json.loads(out.read_text()) if out.exists() else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # one population per process
    left = [cell for cell in chosen if this.is_due(cell, results)]
    with ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn"), _use_one_thread) as pool:
        # All at once: a worker that is done with a cell does not wait for the others.
        futures = [[pool.submit(audited, cell, number) for number in this.numbers] for cell in left]
        for cell, own in zip(left, futures, strict=True):
            try:
                rows = [future.result(timeout=max(until - time.monotonic(), 0)) for future in own]
            except TimeoutError:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            entry = {"populations": len(rows), "figures": summarized(cell, rows)}
            if this.is_again:
                results[key_of(cell)]["again"] = entry
            else:
                results[key_of(cell)] = entry
            out.write_text(json.dumps(results, indent=1))
            print(key_of(cell), f"{until - time.monotonic():.0f} s left", flush=True)


def _use_one_thread() -> None:
    """Blocks of records are processed on all cores otherwise, by every process."""
    scratch._THREADS = 1


COLUMNS = ("AUC", "advantage", "TPR at 10%", "TPR at 1%", "calibrated TPR at 10%", "calibrated TPR at 1%",
           "headline", "accuracy", "bits")  # fmt: skip
GATED = ("AUC,", "advantage,", "TPR at")
SURE = ("AUC", "advantage", "TPR at 10%", "headline", "accuracy")
"""The columns that rest on enough non-members, and are in every cell."""


def page(results: Results) -> str:
    """docs/coverage.md."""
    head = ("models", "number", "design", "records", *COLUMNS, "passes at its limit", "mean AUC",
            "headline above 0.5")  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, result in results.items():
        figures = result["figures"]
        row = [
            *key.split("|"),
            *(_entry(figures, name) for name in COLUMNS),
            _passes(figures),
            *_null(key, figures),
        ]
        lines.append("| " + " | ".join(row) + " |")
    parts = [_INTRODUCTION + "\n".join(_summary(results)), *_again(results), "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _again(results: Results) -> Iterator[str]:
    """What missed and was measured again: how much of it misses again, and what is left."""
    done = {key: r for key, r in results.items() if "again" in r}
    if not done:
        return
    firsts = [(key, name) for key, r in done.items() for name in missed(key, r["figures"])]
    left = [(key, name, missed(key, done[key]["again"]["figures"]).get(name)) for key, name in firsts]
    rows = [(key, name, share) for key, name, share in left if share is not None]
    sizes = sorted({r["again"]["populations"] for r in done.values()})
    waiting = [key for key, r in results.items() if "again" not in r and missed(key, r["figures"])]
    yield "## Measured again"
    n_shares = sum(len(r["figures"]) for r in results.values())
    yield (
        f"The lowest of {n_shares:,} shares is low by chance. So cells in which a figure held in less than "
        f"93%, a null headline was above 0.5 in more than {MOST_WRONG:.1%}, a model at its limit passed in "
        f"more than that, or a null mean AUC was more than {MOST_BIAS} from 0.5, were measured again, with "
        f"{' or '.join(map(str, sizes))} new populations. Of {len(firsts)} such figures in {len(done)} "
        f"cells, {len(firsts) - len(rows)} are as wanted in the new populations. "
        + ("These are not:" if rows else "All are.")
    )
    head = ("models", "number", "design", "records", "figure", "first", "again")
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, name, share in rows:
        first = missed(key, done[key]["figures"])[name]
        table.append("| " + " | ".join([*key.split("|"), name, f"{first:.1%}", f"{share:.1%}"]) + " |")
    if rows:
        yield "\n".join(table)
    if waiting:
        names = "; ".join(", ".join(key.split("|")) for key in waiting)
        yield f"Not measured again: {names}."
    yield "## All cells"


def _summary(results: Results) -> Iterator[str]:
    """What the table comes to, in sentences."""
    missing = [cell for cell in cells(MODELS, KINDS, DESIGNS) if key_of(cell) not in results]
    if missing:
        names = dict.fromkeys(f"{cell.n_models} models, {cell.kind}, {cell.design}" for cell in missing)
        yield f"- Not measured: {'; '.join(names)}."
    for which in ("same", "new"):
        own = {key: r["figures"] for key, r in results.items() if key.endswith(which)}
        worst = [_worst(figures, name) for figures in own.values() for name in SURE]
        shares, widths = zip(*(entry for entry in worst if entry is not None), strict=True)
        tails = [_worst(figures, "TPR at 1%") for figures in own.values()]
        rare = [entry[0] for entry in tails if entry is not None]
        enough = np.mean([share >= WANTED for share in shares])
        single = [
            figure["coverage"]
            for figures in own.values()
            for label, figure in figures.items()
            if label.startswith(SURE)
        ]
        yield (
            f"- *{which}*: of the {len(shares)} entries for the AUC, the advantage, the TPR at 10%, the "
            f"headline and the accuracy, {enough:.0%} are at least 93%, and the lowest is {min(shares):.0%}. "
            f"On average, a single interval contains the truth in {np.mean(single):.1%}. The mean width is "
            f"{np.mean(widths):.2f}. The TPR at 1% holds in {min(rare):.0%} to {max(rare):.0%}."
        )
    bits = [r["figures"]["bits"] for r in results.values()]
    held, widths = np.array([(one["coverage"], one["width"]) for one in bits]).T
    yield (
        f"- The interval of the mean bits holds in {min(held):.0%} to {max(held):.0%} of the populations of "
        f"a cell, and in {np.mean(held):.1%} on average. It holds in at least 93% in "
        f"{np.mean(held >= WANTED):.0%} of the {len(held)} cells. Its width is {min(widths):.2f} to "
        f"{max(widths):.2f}."
    )
    yield from _beside_chance(results)


def _beside_chance(results: Results) -> Iterator[str]:
    """How many entries miss, and how many would if every interval held as often as it should."""
    n = min(int(r["populations"]) for r in results.values())
    shares = [figure["coverage"] for r in results.values() for figure in r["figures"].values()]
    missed, by_chance = np.mean(np.array(shares) < WANTED), binom.cdf(np.ceil(WANTED * n) - 1, n, 0.95)
    yield (
        f"- Of all {len(shares):,} intervals, {missed:.1%} are seen to hold in less than 93%. Of intervals "
        f"that hold in exactly 95%, {by_chance:.1%} would be, with {n} populations."
    )
    gated = [max(_below(r["figures"])) for r in results.values()]
    n_gated = len(_below(next(iter(results.values()))["figures"]))
    yield (
        f"- A model at its limit passes in at most {max(gated):.1%} of the populations of a cell (the "
        f"highest of {n_gated} gated figures), and in {np.mean(gated):.1%} on average."
    )
    above = [r["figures"]["headline"]["above"] for key, r in results.items() if key.startswith(NULL)]
    highest = binom.ppf(0.5 ** (1 / len(above)), n, 0.025) / n
    yield (
        f"- Where nothing leaks, the headline is wholly above 0.5 in {np.mean(above):.1%} of all "
        f"populations, and in at most {max(above):.1%} of those of a cell. With a probability of 2.5% "
        f"in each of {len(above)} cells, the highest would be about {highest:.1%}."
    )
    null = [abs(f["mean"] - 0.5) for key, r in results.items() if key.startswith(NULL)
            for label, f in r["figures"].items() if label.startswith("AUC")]  # fmt: skip
    yield (
        f"- Where nothing leaks, the mean AUC of an attack is within 0.002 of 0.5 in "
        f"{sum(one <= 0.002 for one in null)} of {len(null)} cases, and within {max(null):.4f} in all."
    )


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


def _worst(figures: dict[str, dict[str, float]], name: str) -> tuple[float, float] | None:
    """The lowest coverage over attacks, and the largest width; None: not measured."""
    own = [f for label, f in figures.items() if label == name or label.startswith((f"{name},", f"{name} on"))]
    if not own:
        return None
    widths = [f["width"] for f in own if f["width"] is not None]
    return min(f["coverage"] for f in own), max(widths)


def _entry(figures: dict[str, dict[str, float]], name: str) -> str:
    worst = _worst(figures, name)
    return "–" if worst is None else f"{100 * worst[0]:.0f}%, {worst[1]:.2f}"


def _below(figures: dict[str, dict[str, float]]) -> list[float]:
    """How often a gate passes a model that is exactly at its limit, for each figure that can be limited."""
    return [f["below"] for label, f in figures.items() if label.startswith(GATED)]


def _passes(figures: dict[str, dict[str, float]]) -> str:
    return f"{100 * max(_below(figures)):.1f}%"


def _null(key: str, figures: dict[str, dict[str, float]]) -> tuple[str, str]:
    """Lowest and highest mean AUC of an attack where nothing leaks, and how often the headline denies it."""
    if not key.startswith(NULL):
        return "", ""
    means = [f["mean"] for label, f in figures.items() if label.startswith("AUC,")]
    return f"{min(means):.4f} to {max(means):.4f}", f"{100 * figures['headline']['above']:.1f}%"


_INTRODUCTION = f"""# How often the intervals hold

Made by `python benchmarks/coverage.py --write docs/coverage.md`. Each cell has 200 populations of models
trained on halves of {N_RECORDS} records (three overlapping Gaussian classes, {N_FEATURES} features, a tenth
of the labels random). "same": all populations have the same records, and the interval for *these
records* is checked. "new": every population has records of its own, and the interval for *records like
these* is checked.

Models that *ignore the data* have random weights; models trained on *other records* never saw the ones they
are queried about: both leak nothing. *linear* is logistic regression, *mlp* has 24 hidden units, *forest*
has 25 extremely randomized trees.

Each entry has the lowest share of populations whose 95% interval contains the truth, over the attacks
`loss`, `lira` and `eb_lira`, and the largest mean width, as a multiple of the width of an interval that
knows the true spread. With 200 populations, an interval that holds in 95% of all cases is seen to hold in
92% to 98%; the lowest of three attacks is lower. A dash means not measured.

*Passes at its limit* is the share of populations whose 99% interval lies wholly below the truth: how often a
gate passes a model that is exactly at its limit. *Mean AUC*, without leakage, is given for the attack with
the lowest mean and for the one with the highest; the standard error of a mean is 0.0005 to 0.001. *Headline
above 0.5* is the share of populations where the interval of the headline lies wholly above 0.5 although
nothing leaks.

## What cannot be had

- **Records like these.** A record has two roles: it is queried, and it is trained on. Another sample changes
  both, and models trained on these records alone cannot show how much of their spread comes from single
  training records, and how much from seeds. The interval has a bound instead of an estimate
  ([`stats/two_way.py`](../src/leakscope/stats/two_way.py)). Where training records cause most of the spread,
  as in the AUC of `loss` on small networks, it holds less often than 95%. Every verdict marks these intervals
  as approximate, and a gate asks for 99%.
- **Few false positives.** A TPR at 1% rests on two or three non-members per target here. Where fewer than
  five are expected, verdict, gate and report mark the interval as approximate.
- **Pairs.** Complementary models cancel what their training sets change. With 8 models in pairs, intervals
  for records like these hold less often than with other designs.
- **Accuracy of unequal models.** A few small networks fit their members much worse than the others, so
  accuracies on members are skewed. Their interval for these records held in 90% to 95%.
- **Bits.** The variance of mean bits lies between that of permuted designs and that of a jackknife over
  models, which differ by a factor of up to 10 with 8 models. The interval is between the two, nearer to the
  jackknife the more leaks ([`leakage/bits.py`](../src/leakscope/leakage/bits.py)). With few models it can be
  wider than necessary.

## The table

"""


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
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=Path("docs/results/coverage.json"))
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    chosen = list(
        cells([int(n) for n in given.models.split(",")], given.kinds.split(","), given.designs.split(","))
    )
    numbers = range(given.populations)
    this = Round(numbers, False)
    if given.again:
        this = Round(range(numbers.stop, numbers.stop + given.again), True)
    measured(chosen, this, given.minutes, given.workers, given.results)
    if given.write:
        given.write.write_text(page(json.loads(given.results.read_text())))


if __name__ == "__main__":
    main()
