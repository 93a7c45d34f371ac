"""Where members were never trained on, no attack may claim to tell them."""

from functools import cache

import numpy as np
import pytest

from leakscope.attacks.registry import attack_classes
from leakscope.attacks.spec import resolve
from leakscope.signals.registry import CLASSIFICATION
from leakscope.stats.epsilon import epsilon_of_split
from leakscope.stats.intervals import delong
from leakscope.stats.roc import split_scores
from leakscope.testing import planted_bank

N_SEEDS = 100


@cache
def bank_of(seed):
    return planted_bank(gap=0.0, n_models=12, n_records=240, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, attack in attack_classes().items() if attack().reads(CLASSIFICATION)]
)
def test_intervals_cover_one_half_and_epsilon_stays_zero(name):
    """Nominal coverage is 95% and the bound's error 5%; the limits allow for 100 seeds' noise."""
    covered, above_zero = 0, 0
    for seed in range(N_SEEDS):
        signals, design = bank_of(seed)
        scores = resolve(name)(signals, design, np.array([0])).values[0]
        members = design.in_mask[0]
        covered += 0.5 in delong(scores, members).interval
        above_zero += epsilon_of_split(split_scores(scores, members), delta=1e-5).epsilon > 0
    assert covered >= 0.9 * N_SEEDS
    assert above_zero <= 0.05 * N_SEEDS
