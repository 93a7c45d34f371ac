"""Bits of records that models were not trained on: `python benchmarks/bits_without_leakage.py`.

The truth is 0. Models of other records: linear classifiers and regressions whose stated members they have
never seen. The mean over records of the measured bits, averaged over populations, should be 0 within two
standard errors. Mixed: planted outputs, where half of the records leak and the row is about the other half.
Bits of a record borrow strength from records with similar outputs, so there the mean is above 0.

`--intervals` counts how often an interval lies above 0 where nothing leaks, with few models and with few
members: 2.5% of the populations should have one. Its last column is what a rating reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from leakscope.array_types import BoolArray, FloatArray
from leakscope.design import make_design
from leakscope.evaluate.rating import WORST_BITS
from leakscope.leakage.bits import RecordBits, bits_per_record
from leakscope.signals.residuals import LINEAR_SPREADS, label_spread

N_RECORDS, N_FEATURES, N_OTHERS, N_TRAINED = 200, 20, 300, 100
GAP = 2.0  # of mixed records that leak, in standard deviations over models


def of_classifiers(rng: np.random.Generator, in_mask: BoolArray) -> FloatArray:
    """Log-odds of logistic regressions trained on other records; (models, records)."""
    weights = rng.normal(size=N_FEATURES)

    def drawn(n: int) -> tuple[FloatArray, BoolArray]:
        x = rng.normal(size=(n, N_FEATURES))
        return x, x @ weights + 2 * rng.normal(size=n) > 0

    (x, y), (others, labels) = drawn(N_RECORDS), drawn(N_OTHERS)
    odds = []
    for _ in in_mask:
        used = rng.permutation(N_OTHERS)[:N_TRAINED]
        odds.append(LogisticRegression(C=10).fit(others[used], labels[used]).decision_function(x))
    return np.where(y, odds, -np.array(odds))


def of_regressions(rng: np.random.Generator, in_mask: BoolArray) -> FloatArray:
    """Scaled residuals of ridge regressions trained on other records; (models, records)."""
    weights = rng.normal(size=N_FEATURES) / np.sqrt(N_FEATURES)

    def drawn(n: int) -> tuple[FloatArray, FloatArray]:
        x = rng.normal(size=(n, N_FEATURES))
        return x, x @ weights + rng.normal(size=n)

    (x, y), (others, labels) = drawn(N_RECORDS), drawn(N_OTHERS)
    outputs = []
    for _ in in_mask:
        used = rng.permutation(N_OTHERS)[:N_TRAINED]
        outputs.append(Ridge().fit(others[used], labels[used]).predict(x))
    return np.arcsinh((np.array(outputs) - y) / (LINEAR_SPREADS * label_spread(y)))


def mixed(rng: np.random.Generator, in_mask: BoolArray) -> FloatArray:
    """Gaussian outputs; members' are higher on the second half of the records."""
    leaks = np.arange(N_RECORDS) >= N_RECORDS // 2
    return rng.normal(size=N_RECORDS) + rng.normal(size=in_mask.shape) + GAP * (in_mask & leaks)


def of_noise(rng: np.random.Generator, in_mask: BoolArray) -> FloatArray:
    """Gaussian outputs around the difficulty of each record."""
    return rng.normal(size=in_mask.shape[1]) + rng.normal(size=in_mask.shape)


def of_noise_without_variance(rng: np.random.Generator, in_mask: BoolArray) -> FloatArray:
    """Cauchy outputs around the difficulty of each record."""
    return rng.normal(size=in_mask.shape[1]) + rng.standard_cauchy(in_mask.shape)


CASES: dict[str, tuple[Callable[[np.random.Generator, BoolArray], FloatArray], slice]] = {
    "classifiers of other records": (of_classifiers, slice(None)),
    "regressions of other records": (of_regressions, slice(None)),
    "mixed: records that do not leak": (mixed, slice(0, N_RECORDS // 2)),
}

WITH_INTERVALS = {
    "noise": of_noise,
    "noise without a variance": of_noise_without_variance,
    "classifiers of other records": of_classifiers,
}


def mean_bits(case: str, n_models: int, seed: int) -> float:
    """Mean bits of one population's records whose true value is 0."""
    values_of, records = CASES[case]
    rng = np.random.default_rng([seed, n_models])
    in_mask = make_design("balanced", n_models, N_RECORDS, seed).in_mask
    has_steps = values_of is of_classifiers
    return float(bits_per_record(values_of(rng, in_mask), in_mask, seed, has_steps).bits[records].mean())


def of_share(case: str, n_models: int, share: float, seed: int) -> RecordBits:
    """Bits of one population without leakage, whose models have this share of the records, each by a coin."""
    rng = np.random.default_rng([seed, n_models, round(1000 * share)])
    in_mask = rng.random((n_models, N_RECORDS)) < share
    return bits_per_record(WITH_INTERVALS[case](rng, in_mask), in_mask, seed, has_steps=False)


def print_intervals(n: int) -> None:
    """Prints how many intervals lie above 0, a row per case, number of models and share of members."""
    print("| records | models | members | without interval | mean above 0 | most exposed above 0 | rated |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for case in WITH_INTERVALS:
        for n_models in (4, 5, 6, 7, 8, 12, 16):
            for share in (0.5, 0.3, 0.1, 0.05):
                found = [of_share(case, n_models, share, seed) for seed in range(n)]
                mean = np.array([one.means["bits"].low for one in found], dtype=np.float64)
                worst = np.array([one.most_exposed.low for one in found], dtype=np.float64)
                above = [np.isnan(worst).sum(), (mean > 0).sum(), (worst > 0).sum()]
                above.append((worst >= WORST_BITS["low"]).sum())
                counts = " | ".join(f"{number} of {n}" for number in above)
                print(f"| {case} | {n_models} | {share:.0%} | {counts} |", flush=True)


def main() -> None:
    """Prints a row per case and number of models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--populations", type=int, default=48)
    parser.add_argument("--intervals", action="store_true")
    given = parser.parse_args()
    n = given.populations
    if given.intervals:
        print_intervals(n)
        return
    print("| models | records | mean bits | standard error |\n|---:|---|---:|---:|")
    for n_models in (8, 16, 64):
        for case in CASES:
            found = np.array([mean_bits(case, n_models, seed) for seed in range(n)])
            error = found.std(ddof=1) / np.sqrt(n)
            print(f"| {n_models} | {case} | {found.mean():+.4f} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()
