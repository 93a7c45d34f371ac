"""What a defence may cost: accuracy, or R² where models predict numbers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score

from leakscope.errors import InputError
from leakscope.evaluate.results import Figure
from leakscope.evaluate.utility import (
    ACCURACY,
    R_SQUARED,
    figure_of_means,
    r_squared,
    utility_of,
    utility_values,
)
from leakscope.stats.two_way import Variance
from leakscope.types import Records, Signals
from tests.made_up_text import text_records

RNG = np.random.default_rng(0)
LABELS = RNG.normal(100, 5, 50).astype(np.float32)
OUTPUTS = LABELS + RNG.normal(0, 3, (4, 50)).astype(np.float32)


def signals_of(outputs: np.ndarray, labels: np.ndarray) -> Signals:
    return Signals({"loss": ((outputs - labels) ** 2)[:, None]}, (1,), labels)


def test_the_mean_over_records_is_the_usual_r_squared() -> None:
    means = utility_values(signals_of(OUTPUTS, LABELS)).mean(axis=1)
    assert means == pytest.approx([r2_score(LABELS, outputs) for outputs in OUTPUTS], rel=1e-5)


def test_the_mean_of_the_labels_explains_nothing_and_noise_less_than_that() -> None:
    constant = np.full((1, 50), LABELS.mean(dtype=np.float64))
    assert utility_values(signals_of(constant, LABELS)).mean() == pytest.approx(0, abs=1e-6)
    assert utility_values(signals_of(constant + 30, LABELS)).mean() < -10


def test_only_some_records_set_the_variance() -> None:
    wild = LABELS.copy()
    wild[0] = 1e6  # a canary, say
    some = np.arange(1, 50)
    values = utility_values(signals_of(OUTPUTS, wild), some)[:, some]
    assert values.mean(axis=1) == pytest.approx([r2_score(wild[1:], o[1:]) for o in OUTPUTS], rel=1e-5)


def test_an_interval_of_errors_is_one_of_r_squared_upside_down() -> None:
    error = Figure(3.0, 2.0, 4.0, 0.1, 2.5, 3.5)
    found, variance = r_squared(error, signals_of(OUTPUTS, LABELS)), float(np.var(LABELS, dtype=np.float64))
    assert (found.value, found.low, found.high) == pytest.approx(
        tuple(1 - end**2 / variance for end in (3.0, 3.5, 2.5))
    )
    assert found.low is not None and found.high is not None and found.low < found.high


def test_a_mean_without_bounds_is_not_cut_at_0() -> None:
    figure = figure_of_means(np.array([-3.0, -3.2, -2.8]), Variance(0.01, 0.0, 0.01, 0.0, 0.01, 7))
    assert figure.value == pytest.approx(-3.0)
    assert figure.low is not None and figure.low < -3.2
    assert figure.these_high is not None and -3.0 < figure.these_high < 0


def test_what_is_measured_follows_from_the_records() -> None:
    features, ids = np.zeros((50, 2), np.float32), np.arange(50).astype(str)
    assert utility_of(Records(features, LABELS, ids)) == R_SQUARED
    classes = Records(features, np.arange(50) % 2, ids, class_names=("a", "b"))
    assert utility_of(classes) == ACCURACY
    with pytest.raises(InputError, match="all labels are equal"):
        utility_of(Records(features, np.full(50, 2.5, np.float32), ids))


def test_documents_have_none() -> None:
    with pytest.raises(InputError, match="language models do not have"):
        utility_of(text_records(["one letter", "another one"]))
