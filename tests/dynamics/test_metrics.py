"""All figures together: on known paths, with one checkpoint, and on trained networks."""

import numpy as np
import pytest

from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.metrics import metrics
from leakscope.dynamics.plane import Trajectories, trajectories
from leakscope.types import Design, Signals
from tests.dynamics.banks import shared_bank


def test_a_population_that_goes_straight_to_the_corner():
    states = np.zeros((3, 10, 2))
    states[0] = 0.5
    states[1, :5] = 0.5
    states[1, 5:] = states[2] = (0.0, 1.0)
    figures = metrics(Trajectories((10, 20, 40), states))
    np.testing.assert_allclose(figures.centre, [(0.5, 0.5), (0.25, 0.75), (0, 1)])
    np.testing.assert_allclose(figures.advantage, [0, 0.5, 1])
    np.testing.assert_allclose(figures.vulnerable, [0, 0.5, 1])
    np.testing.assert_allclose(figures.entropy, [0, 1, 0])
    np.testing.assert_allclose(figures.entry, [0.5, 1])
    np.testing.assert_allclose(figures.entry_per_epoch, [1 - 0.5**0.1, 1])
    np.testing.assert_allclose(figures.recall, [0, 0.5, 1])
    assert figures.net_displacement == pytest.approx(figures.path_length) == pytest.approx(100 * np.sqrt(0.5))
    assert (figures.peak_entry, figures.entropy_change, figures.first_epoch) == (1, 0, 40)


def test_one_checkpoint_gives_the_final_plane_and_nothing_between():
    figures = metrics(Trajectories((7,), np.full((1, 4, 2), 0.5)))
    assert figures.centre.shape == (1, 2)
    assert figures.speed.shape == figures.entry.shape == (0,)
    for name in ("net_displacement", "path_length", "entropy_change", "peak_entry", "peak_entry_per_epoch"):
        assert np.isnan(getattr(figures, name)), name


def test_records_without_both_sides_are_left_out():
    states = np.random.default_rng(0).random((3, 10, 2))
    whole = metrics(Trajectories((1, 2, 3), states))
    padded = np.concatenate([states, np.full((3, 2, 2), np.nan)], axis=1)
    for name, values in vars(metrics(Trajectories((1, 2, 3), padded))).items():
        np.testing.assert_array_equal(values, getattr(whole, name))


def test_figures_known_for_wide_resnets_on_cifar10():
    """Fixed-variance leave-one-out LiRA at 0; within 0.005."""
    signals, design = shared_bank()
    figures = metrics(trajectories(decide(Lira(), signals, design), design.in_mask))
    for ours, known in (
        (figures.centre[[0, -1]], [(0.547, 0.550), (0.433, 0.823)]),
        (figures.advantage, [0.003, 0.022, 0.089, 0.160, 0.264, 0.390]),
        (figures.vulnerable, [0.009, 0.016, 0.060, 0.152, 0.268, 0.365]),
        (figures.recall[3:5], [0.38, 0.69]),
    ):
        np.testing.assert_allclose(ours, known, atol=0.005)


@pytest.mark.slow
def test_eb_lira_sees_more_than_lira_on_the_same_networks():
    signals, design = shared_bank()
    few, some = np.arange(0, 44, 3), slice(None, 2000)
    log_odds = signals.arrays["log_odds"][few, 3::2, some]
    cut = Signals({"log_odds": log_odds}, signals.epochs[3::2], signals.labels[some])
    who = Design(design.in_mask[few, some])
    eb, lira = (metrics(trajectories(decide(attack, cut, who), who.in_mask)) for attack in (EbLira(), Lira()))
    assert (eb.advantage > lira.advantage).all()
