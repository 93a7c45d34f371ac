"""Replicates are those of the attack that is printed, and know which models depend on each other."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.registry import attack_classes
from leakscope.attacks.spec import resolve
from leakscope.design import make_design
from leakscope.evaluate.figure import figure_of_targets
from leakscope.evaluate.uncertainty import Sample
from leakscope.signals.registry import CLASSIFICATION
from leakscope.stats.intervals import clopper_pearson
from leakscope.stats.parts import rate_parts
from leakscope.stats.two_way import Variance
from leakscope.testing import planted_bank
from leakscope.types import Design, Signals

CASES = [("eb_lira", kind) for kind in ("balanced", "bernoulli", "pairs")]
CASES_OF_OTHERS = [
    (name, "balanced")
    for name, attack in attack_classes().items()
    if name != "eb_lira" and attack().reads(CLASSIFICATION)
]


@pytest.mark.parametrize(
    ("name", "kind"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES_OF_OTHERS)]
)
def test_with_all_models_the_replicate_is_the_attack_itself(name: str, kind: str) -> None:
    """With other scores, the interval would describe another attack than the figure."""
    attack = resolve(name)
    signals, design = planted_bank(gap=1.0, n_models=8, n_records=160, kind=kind, needs=attack.needs)
    targets = np.arange(8)
    replicates = Sample.of(signals, design, targets).replicates(attack)
    np.testing.assert_array_equal(replicates.whole.values, attack(signals, design, targets).values)


def test_a_given_target_is_repeated_with_its_own_scores_too() -> None:
    signals, design = planted_bank(gap=1.0, n_models=9, n_records=160)
    targets = np.array([2, 3, 5, 7])
    replicates = Sample.of(signals, design, targets).replicates(resolve("eb_lira"))
    np.testing.assert_array_equal(
        replicates.whole.values, resolve("eb_lira")(signals, design, targets).values
    )
    assert [len(one.values) for one in replicates.without] == [4, 4, 3, 3, 4, 3, 4, 3, 4]


def _sample(in_mask: BoolArray) -> Sample:
    signals = Signals({"loss": np.zeros((len(in_mask), 1, in_mask.shape[1]))}, (1,), in_mask[0])
    return Sample.of(signals, Design(in_mask), np.arange(len(in_mask)))


def _difference(values: FloatArray, in_mask: BoolArray) -> FloatArray:
    return (rate_parts(values, in_mask) - rate_parts(values, ~in_mask))[None]


def test_what_complementary_models_share_counts_once() -> None:
    """A record that is easy for one model is hard for its complement, and both add to the same side.

    Each of 4 pairs has a mean of `2 * shared` over 200 records, twice: the variance of the mean over all
    models is 1/200. Models left out one by one seem to be 8 independent ones, and give half of that. Over 60
    populations, the mean of the estimates has a standard error of 1.5%.
    """
    variances = []
    for seed in range(60):
        in_mask = make_design("pairs", 8, 200, seed).in_mask
        shared = np.repeat(np.random.default_rng(seed).normal(size=(4, 200)), 2, axis=0)
        values = np.where(in_mask, shared, -shared)
        (variance,) = _sample(in_mask).replicates_of(values).variances(_difference, 200)
        variances.append(variance.these_records)
        assert variance.degrees == 3
    assert np.mean(variances) == pytest.approx(1 / 200, rel=0.06)


def test_models_whose_complement_is_gone_are_left_out_alone() -> None:
    in_mask = np.delete(make_design("pairs", 12, 80, 0).in_mask, [3, 8], axis=0)
    replicates = _sample(in_mask).replicates_of(np.zeros(in_mask.shape))
    assert [len(one.values) for one in replicates.without] == [8, 9, 8, 8, 9, 8]


@pytest.mark.parametrize(("n_models", "n_groups"), [(4, 4), (6, 6), (8, 4), (32, 16), (64, 16)])
def test_pairs_that_are_too_few_are_left_out_model_by_model(n_models: int, n_groups: int) -> None:
    in_mask = make_design("pairs", n_models, 80, 0).in_mask
    assert len(_sample(in_mask).replicates_of(np.zeros(in_mask.shape)).without) == n_groups


def test_the_interval_for_other_records_contains_that_for_these() -> None:
    """Also where only the variance for these records is 0, and its interval comes from elsewhere."""
    variance = Variance(0.0, 0.0, 1e-7, 0.0, 0.0, 7)
    figure = figure_of_targets(
        np.full(8, 0.999), variance, lambda rate, level: clopper_pearson(round(rate * 20), 20, level)
    )
    assert figure.these_low == pytest.approx(clopper_pearson(20, 20, 0.95).low)
    assert figure.low <= figure.these_low and figure.high >= figure.these_high
    assert figure.high_99 >= figure.these_high_99
