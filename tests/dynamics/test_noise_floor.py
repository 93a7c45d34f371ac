"""Planted exposure stands above the floor; where nothing leaks, everything lies on it."""

import numpy as np
import pytest

from leakscope.attacks.calibrated import Calibrated
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.metrics import metrics
from leakscope.dynamics.noise_floor import noise_floor, permuted
from leakscope.dynamics.plane import trajectories
from leakscope.errors import InputError
from tests.dynamics.banks import rising_bank

RISING = (0.0, 1.5, 4.0)


def figures(attack, signals, design, fpr=None):
    return metrics(trajectories(decide(attack, signals, design, fpr), design.in_mask))


@pytest.mark.parametrize(
    "attack", [Lira(), pytest.param(EbLira(), marks=pytest.mark.slow)], ids=lambda attack: attack.name
)
def test_planted_exposure_stands_above_the_floor(attack):
    signals, design = rising_bank(RISING)
    measured = figures(attack, signals, design)
    floor = noise_floor(attack, signals, design, seed=0, n_permutations=2)
    assert (np.diff(measured.vulnerable) > 0).all()
    assert measured.vulnerable[-1] == pytest.approx(0.5, abs=0.08)
    for name in ("peak_entry", "peak_entry_per_epoch", "net_displacement"):
        assert getattr(measured, name) > 1.5 * getattr(floor.high, name), name
    assert (measured.advantage[1:] > floor.high.advantage[1:]).all()
    assert measured.advantage[-1] > 0.4
    assert np.abs(floor.mean.advantage).max() < 0.06


@pytest.mark.parametrize(
    ("attack", "fpr"),
    [(Lira(), None), pytest.param(EbLira(), None, marks=pytest.mark.slow), (Calibrated(), 0.2)],
)
def test_without_leakage_the_figures_are_those_of_the_floor(attack, fpr):
    signals, design = rising_bank((0.0, 0.0), n_models=10, n_records=1500, seed=1)
    measured = figures(attack, signals, design, fpr)
    floor = noise_floor(attack, signals, design, fpr, seed=0, n_permutations=1).mean
    for name, allowed in {
        "advantage": 0.05, "vulnerable": 0.03, "entropy": 0.3, "entry": 0.03,
    }.items():  # fmt: skip
        np.testing.assert_allclose(getattr(measured, name), getattr(floor, name), atol=allowed, err_msg=name)


def test_a_permutation_keeps_each_records_count_and_forgets_who_was_in():
    _, design = rising_bank(RISING, n_records=3000, kind="bernoulli")
    shuffled = permuted(design, seed=3, permutation=0)
    np.testing.assert_array_equal(shuffled.in_mask.sum(axis=0), design.in_mask.sum(axis=0))
    for ours, theirs in zip(shuffled.in_mask, design.in_mask, strict=True):
        assert (ours == theirs).mean() == pytest.approx(0.5, abs=0.08)
    np.testing.assert_array_equal(shuffled.in_mask, permuted(design, 3, 0).in_mask)
    assert (shuffled.in_mask != permuted(design, 3, 1).in_mask).any()
    assert (shuffled.in_mask != permuted(design, 4, 0).in_mask).any()


def test_the_floor_lies_within_its_range_and_bears_what_is_undefined():
    signals, design = rising_bank((0.0, 0.0), n_models=40, n_records=4)
    floor = noise_floor(Lira(), signals, design, seed=0, n_permutations=2)
    assert np.isnan(floor.mean.recall).all()  # with 20 models a side nobody gets into the corner by chance
    assert np.isnan(floor.low.first_epoch)
    for low, mean, high in zip(*(vars(m).values() for m in (floor.low, floor.mean, floor.high)), strict=True):
        defined = ~np.isnan(mean)
        assert (low[defined] <= mean[defined] + 1e-12).all()
        assert (mean[defined] <= high[defined] + 1e-12).all()
    with pytest.raises(InputError, match="n_permutations=0"):
        noise_floor(Lira(), signals, design, seed=0, n_permutations=0)
