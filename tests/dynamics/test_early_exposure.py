import numpy as np
import pytest

from leakscope.dynamics.grid import (
    early_exposure,
    entry_of_all,
    entry_probability,
    ever_vulnerable,
    first_exposed_epoch,
    stay_probabilities,
)

EPOCHS = (10, 20, 30, 40)


def test_recall_precision_and_the_first_epoch_over_seventy_percent():
    final = np.arange(20) < 10
    vulnerable = np.stack([final & (np.arange(20) < 3), np.arange(20) % 2 == 0, np.arange(20) < 7, final])
    exposure = early_exposure(vulnerable, final, EPOCHS)
    np.testing.assert_allclose(exposure.recall, [0.3, 0.5, 0.7, 1])
    np.testing.assert_allclose(exposure.precision, [1, 0.5, 1, 1])
    assert exposure.first_epoch == 30
    assert exposure.reason == ""


def test_whoever_was_there_once_stays_on_the_list_and_costs_precision():
    vulnerable = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0]], dtype=bool)
    ever = early_exposure(ever_vulnerable(vulnerable), vulnerable[-1], EPOCHS)
    np.testing.assert_allclose(ever.recall, [0, 0.5, 1, 1])
    np.testing.assert_allclose(ever.precision, [0, 1 / 2, 2 / 3, 2 / 3])
    assert ever.first_epoch == 30


def test_entries_as_a_share_of_all_and_of_those_outside():
    vulnerable = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1]], dtype=bool)
    np.testing.assert_allclose(entry_of_all(vulnerable), [1 / 4, 2 / 4])
    np.testing.assert_allclose(entry_probability(vulnerable), [1 / 3, 2 / 2])


def test_newcomers_to_the_corner_are_told_from_those_who_had_been_there():
    vulnerable = np.array([[1, 0, 0, 1], [1, 1, 1, 1], [1, 0, 1, 0], [1, 0, 1, 0]], dtype=bool)
    newcomers, others = stay_probabilities(vulnerable)
    assert newcomers == 1 / 2  # records 1 and 2 enter, record 2 stays
    assert others == 3 / 4  # records 0 and 3 in the second step, 0 and 2 in the third; all but record 3 stay
    assert np.isnan(stay_probabilities(vulnerable[:2])).all()


def test_nobody_vulnerable_gives_nan_and_the_reason():
    nobody = np.zeros((4, 5), dtype=bool)
    exposure = early_exposure(nobody, nobody[-1], EPOCHS)
    assert np.isnan([exposure.first_epoch, *exposure.recall, *exposure.precision]).all()
    assert exposure.reason == "no record is vulnerable at the end"
    late = nobody.copy()
    late[-1, 0] = True
    exposure = early_exposure(late, late[-1], EPOCHS)
    np.testing.assert_array_equal(exposure.recall, [0, 0, 0, 1])
    assert np.isnan(exposure.precision[:3]).all()
    assert "some checkpoints" in exposure.reason
    assert exposure.first_epoch == 40


def test_first_exposed_epoch_of_each_record():
    vulnerable = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 0, 1]], dtype=bool)
    np.testing.assert_array_equal(first_exposed_epoch(vulnerable, EPOCHS), [10, np.nan, 20])


@pytest.mark.parametrize("n", [1, 5])
def test_one_checkpoint_is_its_own_end(n):
    exposure = early_exposure(np.ones((1, n), dtype=bool), np.ones(n, dtype=bool), (7,))
    assert (exposure.recall[0], exposure.precision[0], exposure.first_epoch) == (1, 1, 7)
