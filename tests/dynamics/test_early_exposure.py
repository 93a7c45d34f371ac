import numpy as np
import pytest

from leakscope.dynamics.grid import early_exposure, first_exposed_epoch

EPOCHS = (10, 20, 30, 40)


def test_recall_precision_and_the_first_epoch_over_seventy_percent():
    final = np.arange(20) < 10
    vulnerable = np.stack([final & (np.arange(20) < 3), np.arange(20) % 2 == 0, np.arange(20) < 7, final])
    exposure = early_exposure(vulnerable, EPOCHS)
    np.testing.assert_allclose(exposure.recall, [0.3, 0.5, 0.7, 1])
    np.testing.assert_allclose(exposure.precision, [1, 0.5, 1, 1])
    assert exposure.first_epoch == 30
    assert exposure.reason == ""


def test_nobody_vulnerable_gives_nan_and_the_reason():
    nobody = np.zeros((4, 5), dtype=bool)
    exposure = early_exposure(nobody, EPOCHS)
    assert np.isnan([exposure.first_epoch, *exposure.recall, *exposure.precision]).all()
    assert exposure.reason == "no record is vulnerable at the end"
    late = nobody.copy()
    late[-1, 0] = True
    exposure = early_exposure(late, EPOCHS)
    np.testing.assert_array_equal(exposure.recall, [0, 0, 0, 1])
    assert np.isnan(exposure.precision[:3]).all()
    assert "some checkpoints" in exposure.reason
    assert exposure.first_epoch == 40


def test_first_exposed_epoch_of_each_record():
    vulnerable = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 0, 1]], dtype=bool)
    np.testing.assert_array_equal(first_exposed_epoch(vulnerable, EPOCHS), [10, np.nan, 20])


@pytest.mark.parametrize("n", [1, 5])
def test_one_checkpoint_is_its_own_end(n):
    exposure = early_exposure(np.ones((1, n), dtype=bool), (7,))
    assert (exposure.recall[0], exposure.precision[0], exposure.first_epoch) == (1, 1, 7)
