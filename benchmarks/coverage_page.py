"""docs/coverage.md, from the results of `coverage.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from coverage_cells import (
    DESIGNS,
    GATED,
    LARGE,
    MODELS,
    MOST_BIAS,
    MOST_WRONG,
    N_RECORDS,
    N_RECORDS_OF_LARGE,
    WANTED,
    Results,
    cells,
    key_of,
    missed,
)
from coverage_models import KINDS, N_FEATURES, NULL

COLUMNS = ("AUC", "advantage", "TPR at 10%", "TPR at 1%", "calibrated TPR at 10%", "calibrated TPR at 1%",
           "headline", "accuracy", "bits")  # fmt: skip
SURE = ("AUC", "advantage", "TPR at 10%", "headline", "accuracy")
"""The columns that rest on enough non-members, and are in every cell."""


def page(results: Results) -> str:
    """docs/coverage.md."""
    large = {key: r for key, r in results.items() if key.endswith(LARGE)}
    usual = {key: r for key, r in results.items() if key not in large}
    parts = [_INTRODUCTION + "\n".join(_summary(usual)), *_again(usual), _table(usual)]
    if large:
        parts += [_LARGE, _table({key.removesuffix(LARGE): r for key, r in large.items()})]
    return "\n\n".join(parts) + "\n"


def _table(results: Results) -> str:
    """One line per cell."""
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
    return "\n".join(lines)


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
    for change in dict.fromkeys(
        why for result in results.values() for why in result.get("before", {}).values()
    ):
        yield f"- Measured before {change}: {'; '.join(_names_before(change, results))}."
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


def _names_before(change: str, results: Results) -> Iterator[str]:
    """How many cells of each number of models were measured before a change; all, where they all were."""
    numbers = [
        key.split("|")[1] for key, result in results.items() if change in result.get("before", {}).values()
    ]
    if len(numbers) == len(results):
        yield "all cells"
        return
    of_all = [key.split("|")[1] for key in results]
    for n_models in dict.fromkeys(numbers):
        yield f"{numbers.count(n_models)} of {of_all.count(n_models)} cells with {n_models} models"


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

## What cannot be achieved

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

_LARGE = f"""## Large audits

An audit of more than 640,000 outputs (10,000 records of 64 models) repeats its attacks on a sample of the
records. This table is about audits of {N_RECORDS_OF_LARGE:,} records whose attacks are repeated on
{N_RECORDS} of them, made by `python benchmarks/coverage.py --large --models 16 --designs balanced --write
docs/coverage.md`. What all records share must be separated from the noise of the sample, so these intervals
are wider than those above."""
