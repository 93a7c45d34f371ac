"""How fast are attacks and curves at a million records and more? Each beside a straightforward reference.

The reference does the obvious thing at a smaller size; the ratio compares time per unit of work.
First the cost of intervals: every figure of EB-LiRA with its intervals, against its scores alone. Peak memory
is the process's own (VmHWM), for each step. Run it on a quiet machine: the load is printed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from sklearn.metrics import roc_curve

from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.rmia import share_beaten
from leakscope.design import make_design
from leakscope.disk.scratch import Scratch
from leakscope.evaluate.attack_figures import Scored, attack_figures
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.uncertainty import Sample
from leakscope.stats.record_types import fit_record_types, log_marginal
from leakscope.stats.roc import roc
from leakscope.stats.roc_summary import roc_summary
from leakscope.stats.side_sums import side_sums
from leakscope.types import Design, Signals

T = TypeVar("T")
CONFIG = EvaluationConfig("made up", ("eb_lira",), (0.1, 0.01, 0.001))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--models", type=int, default=64)
    options = arguments.parse_args()
    print(f"load before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    intervals(options.models, options.records)
    print(f"load after: {os.getloadavg()[0]:.2f}")
    eb_lira(options.models, options.records)
    rmia(options.records)
    curves(10 * options.records)


class Stage(NamedTuple):
    """Seconds by the clock and of all cores; GiB at its peak beyond what was resident before."""

    seconds: float
    cpu_seconds: float
    peak_gib: float


def measured(work: Callable[[], T]) -> tuple[T, Stage]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, clock, cpu = memory_gib("VmRSS"), time.perf_counter(), time.process_time()
    result = work()
    spent = time.perf_counter() - clock, time.process_time() - cpu
    return result, Stage(*spent, memory_gib("VmHWM") - before)


def intervals(n_models: int, n_records: int) -> None:
    signals, design = made_up(n_models, n_records)
    targets, scratch, attack = np.arange(n_models), Scratch(Path()), EbLira()
    scores, scoring = measured(lambda: attack(signals, design, targets, scratch).values)
    sample, sampling = measured(lambda: Sample.of(signals, design, targets))
    replicates, repeating = measured(lambda: sample.replicates(attack))
    none = replace(replicates, without=())
    stages = {"scores": scoring, "sample of records": sampling, "replicates": repeating}
    for name, used in (("figures without intervals", none), ("figures with intervals", replicates)):
        scored = Scored(scores, design.in_mask, used, sample.units)
        _, stages[name] = measured(lambda one=scored: attack_figures(one, CONFIG, {}, scratch))  # type: ignore[misc]
    print(f"EB-LiRA, {n_models} models, {n_records:,} records, intervals from {len(sample.units):,} of them")
    for name, (seconds_, cpu_seconds, peak) in stages.items():
        print(f"  {name:26s} {seconds_:6.1f} s, {cpu_seconds:6.1f} s of all cores, {peak:.2f} GiB")
    for unit in ("seconds", "cpu_seconds"):
        of = {name: getattr(stage, unit) for name, stage in stages.items()}
        without = of["scores"] + of["figures without intervals"]
        whole = of["scores"] + of["sample of records"] + of["replicates"] + of["figures with intervals"]
        print(f"  with intervals / without, in {unit}: {whole / without:.2f}; / scores alone: "
              f"{whole / of['scores']:.2f}", flush=True)  # fmt: skip


def eb_lira(n_models: int, n_records: int) -> None:
    signals, design = made_up(n_models, n_records)
    ours = seconds(lambda: EbLira()(signals, design))
    small_signals, small_design = made_up(n_models, 20_000)
    theirs = seconds(lambda: one_target_at_a_time(small_signals, small_design))
    ratio = (theirs / 20_000) / (ours / n_records)
    report(f"EB-LiRA, every one of {n_models} models a target, {n_records:,} records", ours,
           f"each target's sums and fit anew, 20,000 records: {theirs:.1f} s", ratio)  # fmt: skip


def one_target_at_a_time(signals: Signals, design: Design) -> None:
    values = signals.last("log_odds").astype(np.float64)
    for target in range(len(values)):
        others = np.delete(np.arange(len(values)), target)
        types = fit_record_types(side_sums(values[others], design.in_mask[others]))
        for is_in in (True, False):
            mask = np.concatenate([design.in_mask[others], np.full((1, values.shape[1]), is_in)])
            log_marginal(types, side_sums(np.concatenate([values[others], values[[target]]]), mask))


def rmia(n_records: int) -> None:
    rng = np.random.default_rng(0)
    ratio, population = rng.lognormal(size=n_records), rng.lognormal(size=n_records)
    ours = seconds(lambda: share_beaten(ratio, population, 2.0))
    small, crowd = ratio[:5000], population[:5000]
    theirs = seconds(lambda: (small[:, None] / crowd[None] >= 2.0).mean(axis=1))
    per_pair = (theirs / 5000**2) / (ours / n_records**2)
    report(f"RMIA, {n_records:,} records against {n_records:,}", ours,
           f"the whole matrix at 5,000 x 5,000: {theirs:.2f} s", per_pair)  # fmt: skip


def curves(n_scores: int) -> None:
    rng = np.random.default_rng(0)
    scores, members = rng.normal(size=n_scores), rng.random(n_scores) < 0.5
    ours = seconds(lambda: roc(scores, members))
    brief = seconds(lambda: roc_summary(scores, members))
    few = n_scores // 10
    theirs = seconds(lambda: roc_curve(members[:few], scores[:few], drop_intermediate=False))
    report(
        f"ROC of {n_scores:,} scores",
        ours,
        f"scikit-learn, {few:,} scores: {theirs:.2f} s",
        10 * theirs / ours,
    )
    print(f"  AUC, advantage and two TPRs without the curve: {brief:.2f} s")


def made_up(n_models: int, n_records: int) -> tuple[Signals, Design]:
    """Log-odds like a network's: hard records low when out, high when in."""
    design = make_design("balanced", n_models, n_records, seed=0)
    rng = np.random.default_rng(1)
    ease = rng.normal(6, 4, n_records).astype(np.float32)
    log_odds = rng.standard_normal((n_models, n_records), dtype=np.float32) * 2
    log_odds += ease
    log_odds += design.in_mask * np.maximum(8 - ease, 0) / 2
    return Signals({"log_odds": log_odds[:, None]}, (1,), np.zeros(n_records, dtype=np.int64)), design


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def report(what: str, ours: float, reference: str, ratio: float) -> None:
    print(f"{what}: {ours:.2f} s, peak memory {memory_gib('VmHWM'):.1f} GiB")
    print(f"  reference: {reference}; ours does the same work {ratio:,.0f}x faster", flush=True)


def memory_gib(field: str) -> float:
    """VmRSS: resident now; VmHWM: the most so far, without that of the parent, which ru_maxrss has."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) / 1024**2


if __name__ == "__main__":
    main()
