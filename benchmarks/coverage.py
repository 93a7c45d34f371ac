"""How often do the printed 95% intervals hold? Many populations of known truth, audited one by one.

A cell is a kind of models, a number of models and a design. Its populations share their records ("same") or
have records of their own ("new"). The truth of a figure is its mean over the populations of the cell; where
models learned nothing about the records it is known: an AUC of 0.5, an advantage of 0, a TPR equal to the
FPR. (A calibrated TPR has a threshold of other models, so its FPR is not exactly the given one.)

    python benchmarks/coverage.py --populations 200 --models 8,16 --minutes 30 --write docs/coverage.md

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
from typing import NamedTuple
from zlib import crc32

import numpy as np

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

N_RECORDS, N_FEATURES, N_CLASSES = 500, 12, 3
ATTACKS = ("loss", "lira", "eb_lira")
FPRS = (0.1, 0.01)
KINDS = ("ignore the data", "other records", "linear", "mlp", "forest")
NULL = KINDS[:2]
CONFIG = EvaluationConfig("records", ATTACKS, FPRS)
NO_SET = SetFigures("", 0, UNDEFINED, UNDEFINED, (), "the most exposed records are not measured here")


class Cell(NamedTuple):
    """What the populations of a cell have in common."""

    kind: str
    n_models: int
    design: str
    records: str


def key_of(cell: Cell) -> str:
    """The cell's name in the results."""
    return "|".join(map(str, cell))


def records(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping Gaussian classes with a tenth of the labels at random; features and labels."""
    rng = np.random.default_rng([seed, 1])
    labels = rng.integers(N_CLASSES, size=n)
    centers = np.random.default_rng(0).normal(0, 0.8, (N_CLASSES, N_FEATURES))
    features = centers[labels] + rng.normal(size=(n, N_FEATURES))
    noisy = rng.random(n) < 0.1
    labels[noisy] = rng.integers(N_CLASSES, size=int(noisy.sum()))
    return features.astype(np.float32), labels


def logits_of(kind: str, x: np.ndarray, y: np.ndarray, members: np.ndarray, seed: int) -> np.ndarray:
    """Logits of one model of a kind, trained on the members; (records, classes)."""
    rng = np.random.default_rng([seed, 2])
    if kind == "ignore the data":
        return 2 * x @ rng.normal(0, 1 / np.sqrt(N_FEATURES), (N_FEATURES, N_CLASSES)) + rng.normal(
            size=N_CLASSES
        )
    if kind == "other records":
        other_x, other_y = records(int(rng.integers(2**31)), int(members.sum()))
        return logits_of("linear", np.concatenate([x, other_x]), np.concatenate([y, other_y]),
                         np.arange(len(x) + len(other_x)) >= len(x), seed)[: len(x)]  # fmt: skip
    return np.log(np.clip(_fitted(kind, x[members], y[members], seed).predict_proba(x), 1e-4, 1))


def _fitted(kind: str, x: np.ndarray, y: np.ndarray, seed: int) -> object:
    if kind == "linear":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=10.0, max_iter=200).fit(x, y)
    if kind == "mlp":
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier((24,), solver="adam", learning_rate_init=0.02, batch_size=64, max_iter=30,
                             n_iter_no_change=100, random_state=seed % 2**31).fit(x, y)  # fmt: skip
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(25, min_samples_leaf=2, random_state=seed % 2**31).fit(x, y)


def seed_of(cell: Cell, *numbers: int) -> int:
    """A seed of the cell's own: cells that shared models or records would deviate from 95% together."""
    return int(np.random.SeedSequence([crc32(key_of(cell).encode()), *numbers]).generate_state(1)[0])


def population(cell: Cell, number: int) -> tuple[Signals, Design]:
    """The signals of one population's models."""
    import warnings

    warnings.simplefilter("ignore")
    sample = 0 if cell.records == "same" else number + 1
    x, y = records(seed_of(cell, 0, sample), N_RECORDS)
    design = make_design(cell.design, cell.n_models, N_RECORDS, seed_of(cell, 1, number))
    logits = np.stack([
        logits_of(cell.kind, x, y, members, seed_of(cell, 2, number, model))
        for model, members in enumerate(design.in_mask)
    ])  # fmt: skip
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


def measured(chosen: list[Cell], n_populations: int, minutes: float, n_workers: int, out: Path) -> None:
    """Audits the populations cell by cell until the time is over; writes what is finished to `out`."""
    until = time.monotonic() + 60 * minutes
    results: dict[str, object] = json.loads(out.read_text()) if out.exists() else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # one population per process
    with ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn"), _use_one_thread) as pool:
        for cell in chosen:
            key = key_of(cell)
            if key in results:
                continue
            futures = [pool.submit(audited, cell, number) for number in range(n_populations)]
            rows = []
            for future in futures:
                left = until - time.monotonic()
                if left <= 0:
                    future.cancel()
                    continue
                try:
                    rows.append(future.result(timeout=left))
                except TimeoutError:
                    future.cancel()
            if len(rows) < n_populations:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            results[key] = {"populations": len(rows), "figures": summarized(cell, rows)}
            out.write_text(json.dumps(results, indent=1))
            print(key, f"{until - time.monotonic():.0f} s left", flush=True)


def _use_one_thread() -> None:
    """Blocks of records are processed on all cores otherwise, by every process."""
    scratch._THREADS = 1


COLUMNS = ("AUC", "advantage", "TPR at 10%", "TPR at 1%", "calibrated TPR at 10%", "calibrated TPR at 1%",
           "headline", "accuracy", "bits")  # fmt: skip
SURE = ("AUC", "advantage", "TPR at 10%", "headline", "accuracy")
"""The columns that rest on enough non-members, and are in every cell."""
Results = dict[str, dict[str, dict[str, dict[str, float]]]]


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
    return _INTRODUCTION + "\n".join(_summary(results)) + "\n\n" + "\n".join(lines) + "\n"


def _summary(results: Results) -> Iterator[str]:
    """What the table comes to, in sentences."""
    for records in ("same", "new"):
        own = {key: r["figures"] for key, r in results.items() if key.endswith(records)}
        worst = [_worst(figures, name) for figures in own.values() for name in SURE]
        shares, widths = zip(*(entry for entry in worst if entry is not None), strict=True)
        tails = [_worst(figures, "TPR at 1%") for figures in own.values()]
        rare = [entry[0] for entry in tails if entry is not None]
        enough = np.mean([share >= 0.93 for share in shares])
        single = [
            figure["coverage"]
            for figures in own.values()
            for label, figure in figures.items()
            if label.startswith(SURE)
        ]
        yield (
            f"- *{records}*: of the {len(shares)} entries for the AUC, the advantage, the TPR at 10%, the "
            f"headline and the accuracy, {enough:.0%} are at least 93%, and the lowest is {min(shares):.0%}. "
            f"A single interval holds in {np.mean(single):.1%} on average. The mean width is "
            f"{np.mean(widths):.2f}. The TPR at 1% holds in {min(rare):.0%} to {max(rare):.0%}."
        )
    gated = [max(_below(r["figures"])) for r in results.values()]
    above = [r["figures"]["headline"]["above"] for key, r in results.items() if key.startswith(NULL)]
    yield (
        f"- A model at its limit passes in at most {max(gated):.1%} of the populations of a cell, and in "
        f"{np.mean(gated):.1%} on average. Where nothing leaks, the headline is wholly above 0.5 in at most "
        f"{max(above):.1%}."
    )


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
    return [f["below"] for label, f in figures.items() if label.startswith(("AUC,", "advantage,", "TPR at"))]


def _passes(figures: dict[str, dict[str, float]]) -> str:
    return f"{100 * max(_below(figures)):.1f}%"


def _null(key: str, figures: dict[str, dict[str, float]]) -> tuple[str, str]:
    """Lowest and highest mean AUC of an attack where nothing leaks, and how often the headline denies it."""
    if not key.startswith(NULL):
        return "", ""
    means = [f["mean"] for label, f in figures.items() if label.startswith("AUC,")]
    return f"{min(means):.4f} to {max(means):.4f}", f"{100 * figures['headline']['above']:.1f}%"


_INTRODUCTION = f"""# How often the intervals hold

Made by `python benchmarks/coverage.py --write docs/coverage.md`. A cell has 200 populations of models
trained on halves of {N_RECORDS} records (three overlapping Gaussian classes, {N_FEATURES} features, a tenth
of the labels at random). "same": all populations have the same records, and the interval for *these
records* is checked. "new": every population has records of its own, and the interval for *records like
these* is checked.

Models that *ignore the data* have random weights; models trained on *other records* never saw the ones they
are queried about: both leak nothing. *linear* is logistic regression, *mlp* has 24 hidden units, *forest*
has 25 extremely randomized trees.

Each entry has the lowest share of populations whose 95% interval contains the truth, over the attacks
`loss`, `lira` and `eb_lira`, and the largest mean width, as a multiple of the width of an interval that
knows the true spread. With 200 populations, an interval that holds in 95% of all cases is seen to hold in
92% to 98%; the lowest of three attacks is lower. A dash means not measured. Cells of 64 models, and forests
of 32 in pairs, are not measured yet. The column of the headline is older than its interval, which has
become longer where the halves of the records chose different attacks. In the two cells where it held least
often (16 models trained on other records, same; balanced and pairs) it now holds in 96.5% and 94.5%.

*Passes at its limit* is the share of populations whose 99% interval lies wholly below the truth: so often a
gate passes a model that is exactly at its limit. *Mean AUC*, where nothing leaks, is that of the lowest and
of the highest attack; the standard error of a mean is 0.0005 to 0.001. *Headline above 0.5* is the share of
populations where the interval of the headline lies wholly above 0.5 although nothing leaks.

## What cannot be had

- **Records like these.** A record has two roles: it is queried, and it is trained on. Another sample changes
  both, and models trained on these records alone cannot show how much of their spread comes from single
  training records, and how much from seeds. The interval has a bound instead of an estimate
  ([`stats/two_way.py`](../src/leakscope/stats/two_way.py)). Where training records cause all of the spread,
  as in nearest neighbors, it holds less often than 95%. Every verdict marks these intervals as approximate,
  and a gate asks for 99%.
- **Few false positives.** A TPR at 1% rests on two or three non-members per target here. Where fewer than
  five are expected, verdict, gate and report mark the interval as approximate. In small networks, outputs
  that tie at the top make a calibrated TPR of `loss` at 1% exactly 0 in many populations and more in few;
  its interval holds in far less than 95%.
- **Pairs.** Complementary models cancel what their training sets change. With 8 models in pairs, intervals
  for records like these hold less often than with other designs.
- **Bits.** The variance of mean bits lies between that of permuted designs and that of a jackknife over
  models, which differ by a factor of 10 with 8 models. The interval takes their geometric mean, so with 8
  models it can be about twice as wide as necessary. With 16 and 32 models it is too short for some that
  leak: it holds in 80% and 87% of the populations of linear models in pairs (same), and in 87% to 92% of
  those of 16 forests.

## The table

"""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--populations", type=int, default=200)
    parser.add_argument("--models", default="8,16,32,64")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--designs", default="balanced,bernoulli,pairs")
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=Path("docs/results/coverage.json"))
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    chosen = list(
        cells([int(n) for n in given.models.split(",")], given.kinds.split(","), given.designs.split(","))
    )
    measured(chosen, given.populations, given.minutes, given.workers, given.results)
    if given.write:
        given.write.write_text(page(json.loads(given.results.read_text())))


if __name__ == "__main__":
    main()
