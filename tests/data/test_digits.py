import numpy as np
from sklearn.datasets import load_digits

from leakscope.data.digits import digits


def test_digits_are_scaled_to_one() -> None:
    records = digits()
    assert records.features.shape == (1797, 64)
    assert records.features.dtype == np.float32
    assert records.features.min() == 0.0 and records.features.max() == 1.0
    assert list(records.ids[[0, -1]]) == ["digits-0000", "digits-1796"]
    np.testing.assert_array_equal(records.labels[:10], np.arange(10))


def test_digits_are_those_of_scikit_learn() -> None:
    pixels, labels = load_digits(return_X_y=True)
    np.testing.assert_array_equal(digits().features, (pixels / 16).astype(np.float32))
    np.testing.assert_array_equal(digits().labels, labels)
