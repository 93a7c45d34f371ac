import numpy as np
import pytest

from leakscope.attacks.lira import Lira
from leakscope.dynamics.decisions import decide
from leakscope.dynamics.jackknife import jackknife, model_groups, over_populations
from leakscope.dynamics.metrics import metrics
from leakscope.dynamics.plane import Trajectories, trajectories
from leakscope.errors import InputError
from tests.dynamics.banks import rising_bank

RISING = (0.0, 2.0, 4.0)


def paths(signals, design):
    return trajectories(decide(Lira(), signals, design), design.in_mask)


def test_it_is_the_jackknife_written_out():
    signals, design = rising_bank(RISING, n_models=12, n_records=80)
    replicates = jackknife(Lira(), signals, design, n_groups=4)
    left = [np.flatnonzero(np.arange(12) % 4 != group) for group in range(4)]
    repeats = [metrics(paths(signals.take(m), design.take(m))) for m in left]
    for name in ("advantage", "net_displacement", "entropy", "vulnerable"):
        values = np.stack([getattr(repeat, name) for repeat in repeats])
        expected = np.sqrt(3 / 4 * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
        np.testing.assert_allclose(getattr(replicates.standard_error, name), expected)
    assert replicates.advantage.method == "jackknife over 4 groups of 12 models"


@pytest.mark.slow
def test_it_predicts_how_far_independent_populations_differ():
    banks = [rising_bank((0.0, 1.5), n_models=20, n_records=300, seed=seed) for seed in range(12)]
    seen = over_populations([paths(*bank) for bank in banks])
    forecast = np.mean([jackknife(Lira(), *bank, n_groups=10).advantage.standard_error for bank in banks])
    assert 0.5 < forecast / seen.advantage.standard_error < 2


def test_variation_of_known_populations():
    states = np.zeros((2, 1, 3, 2))
    states[0, 0, :, 1], states[1, 0, :, 1] = (0.9, 0.8, 0.1), (0.7, 0.8, 0.1)
    variation = over_populations([Trajectories((5,), s) for s in states]).advantage
    assert variation.mean == pytest.approx((0.8 + 0.8 + 0.1) / 3)
    assert variation.standard_error == pytest.approx(np.std([1.8 / 3, 1.6 / 3], ddof=1))
    assert variation.coefficient == pytest.approx(variation.standard_error / variation.mean)
    assert variation.vulnerable_coefficient == pytest.approx(np.median([np.std([0.9, 0.7], ddof=1) / 0.8, 0]))
    assert variation.record_standard_error == 0
    assert variation.reason == ""


def test_nothing_to_vary_gives_nan_and_the_reason():
    still = Trajectories((5,), np.full((1, 4, 2), 0.5))
    variation = over_populations([still, still]).advantage
    assert np.isnan(variation.coefficient)
    assert np.isnan(variation.vulnerable_coefficient)
    assert variation.reason == "the mean advantage is not above 0; no record is vulnerable at the end"
    undefined = Trajectories((5,), np.where(np.arange(4)[None, :, None] < 2, np.nan, still.states))
    other = Trajectories((5,), np.where(np.arange(4)[None, :, None] >= 2, np.nan, still.states))
    with pytest.raises(InputError, match="no record has IN and OUT models in all of them"):
        over_populations([undefined, other])


def test_groups_hold_every_model_once():
    groups = model_groups(10, 4)
    assert sorted(np.concatenate(groups)) == list(range(10))
    assert {len(group) for group in groups} == {2, 3}
    for n_groups in (1, 11):
        with pytest.raises(InputError, match=f"n_groups={n_groups}"):
            model_groups(10, n_groups)
    with pytest.raises(InputError, match="at least 3 models"):
        model_groups(4, 2)
