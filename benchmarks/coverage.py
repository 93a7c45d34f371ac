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


def population(cell: Cell, number: int) -> tuple[Signals, Design]:
    """The signals of one population's models."""
    import warnings

    warnings.simplefilter("ignore")
    x, y = records(0 if cell.records == "same" else number + 1, N_RECORDS)
    design = make_design(cell.design, cell.n_models, N_RECORDS, 1000 * number + cell.n_models)
    logits = np.stack([
        logits_of(cell.kind, x, y, members, 1_000_003 * number + model)
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
        scored = Scored(scores, design.in_mask, replicates, sample.records)
        own = attack_figures(scored, CONFIG, {}, NO_SET)
        halves[attack.label] = half_aucs(scored)
        figures |= {f"AUC, {attack.label}": own.auc, f"advantage, {attack.label}": own.advantage}
        thresholds = advantage_thresholds(scores, design.in_mask)
        unclipped[f"advantage, {attack.label}"] = advantage_parts(scores, design.in_mask, thresholds).sum()
        for point, calibrated in zip(own.tpr_at_fpr, own.calibrated, strict=True):
            at = f"{100 * point.fpr:g}%, {attack.label}"
            figures |= {f"TPR at {at}": point, f"calibrated TPR at {at}": calibrated.tpr}
    figures["headline"] = strongest(halves, replicates, N_RECORDS)[1]
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
            key = "|".join(map(str, cell))
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


def page(results: dict[str, dict[str, object]]) -> str:
    """docs/coverage.md."""
    head = ("models", "number", "design", "records", *COLUMNS, "passes at its limit", "mean AUC")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, result in results.items():
        figures = result["figures"]
        assert isinstance(figures, dict)
        row = [
            *key.split("|"),
            *(_worst(figures, name) for name in COLUMNS),
            _passes(figures),
            _null(key, figures),
        ]
        lines.append("| " + " | ".join(row) + " |")
    return _INTRODUCTION.format(*_of_other_records(results)) + "\n".join(lines) + "\n"


def _of_other_records(results: dict[str, dict[str, object]]) -> tuple[str, str]:
    """Lowest and highest coverage for *records like these*, of the models that fit their records closely."""
    shares = [
        figure["coverage"]
        for key, result in results.items()
        if key.startswith(("mlp", "forest")) and key.endswith("new")
        for figure in result["figures"].values()
    ]
    return f"{100 * min(shares):.0f}%", f"{100 * max(shares):.0f}%"


def _worst(figures: dict[str, dict[str, float]], name: str) -> str:
    """The lowest coverage over attacks, and the largest width."""
    own = [f for label, f in figures.items() if label == name or label.startswith((f"{name},", f"{name} on"))]
    if not own:
        return "–"
    widths = [f["width"] for f in own if f["width"] is not None]
    return f"{100 * min(f['coverage'] for f in own):.0f}%, {max(widths):.2f}"


def _passes(figures: dict[str, dict[str, float]]) -> str:
    """How often a gate passes a model that is exactly at its limit; the largest share over gated figures."""
    gated = ("AUC,", "advantage,", "TPR at")
    return f"{100 * max(f['below'] for label, f in figures.items() if label.startswith(gated)):.1f}%"


def _null(key: str, figures: dict[str, dict[str, float]]) -> str:
    """Lowest and highest mean AUC of an attack where nothing leaks."""
    means = [f["mean"] for label, f in figures.items() if label.startswith("AUC,")]
    return f"{min(means):.4f} to {max(means):.4f}" if key.startswith(NULL) else ""


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
92% to 98%.

*Passes at its limit* is the share of populations whose 99% interval lies wholly below the truth: so often a
gate passes a model that is exactly at its limit. *Mean AUC*, where nothing leaks, is that of the lowest and
of the highest attack; the standard error of a mean is 0.0005 to 0.001. A dash means not measured.

These weaknesses are known.

- Intervals for *records like these* are approximate. A record has two roles: it is queried, and it is trained
  on. Another sample changes both, and a population only shows the first well: how much each record leaks, not
  how much it makes others leak. For forests and small networks these intervals hold in {{}} to {{}} of all
  cases, depending on the figure. More models do not help: they make the intervals shorter, while the spread
  over records stays.
- A TPR at 1% rests on two or three non-members per target here, so its intervals are the least reliable ones.
- In a design of pairs, complementary models differ less than two others do, which an interval from 8 models
  does not notice.
- Mean bits have one interval, over models, and it is checked in all cells. With 8 models it is mostly two to
  four times as wide as necessary. It does not account for another sample of records.

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
