"""How fast are attacks and curves at a million records and more? Each beside a straightforward reference.

The reference does the obvious thing at a smaller size; the ratio compares time per unit of work.
Peak memory is the process's own, read after each step.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import roc_curve

from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.rmia import share_beaten
from leakscope.design import make_design
from leakscope.stats.record_types import fit_record_types, log_marginal, side_sums
from leakscope.stats.roc import roc
from leakscope.stats.roc_summary import roc_summary
from leakscope.types import Design, Signals


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--models", type=int, default=64)
    options = arguments.parse_args()
    eb_lira(options.models, options.records)
    rmia(options.records)
    curves(10 * options.records)


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{what}: {ours:.2f} s, peak memory so far {peak:.1f} GiB")
    print(f"  reference: {reference}; ours does the same work {ratio:,.0f}x faster", flush=True)


if __name__ == "__main__":
    main()
