"""A training function of the user's own goes the same way as a network or an estimator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import leakscope
from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import TrainingError
from leakscope.randomness import Purpose, seed_integer
from leakscope.types import Records
from tests.engine.small_population import SEED, complete, records, regression_records

Predict = Callable[[AnyArray], AnyArray]


def neighbours(given: Records, indices: IntArray, seed: int) -> Predict:
    fitted = KNeighborsClassifier(1).fit(given.features[indices], given.labels[indices])
    return fitted.predict_proba


def noisy_mean(given: Records, indices: IntArray, seed: int) -> Predict:
    """Logits that depend on the seed alone, and a regression's single output."""
    offset = np.random.default_rng(seed).normal(size=given.n_classes)
    return lambda features: np.zeros((len(features), given.n_classes)) + offset


def one_class(given: Records, indices: IntArray, seed: int) -> Predict:
    return lambda features: np.zeros(len(features))


def nothing(given: Records, indices: IntArray, seed: int) -> Any:
    return None


def not_a_number(given: Records, indices: IntArray, seed: int) -> Predict:
    return lambda features: np.full((len(features), 3), np.nan)


def broken(given: Records, indices: IntArray, seed: int) -> Predict:
    is_broken = seed % 2 == 0
    return lambda features: np.full((len(features), 3), np.nan if is_broken else 0.0)


def test_probabilities_become_the_signals_of_the_same_estimator(tmp_path: Path) -> None:
    own = complete(tmp_path / "own", leakscope.FunctionRecipe(neighbours))
    same = complete(tmp_path / "same", leakscope.EstimatorRecipe(KNeighborsClassifier(1), processes=1))
    for name in ("loss", "log_odds", "correct"):
        np.testing.assert_allclose(own.signals().last(name), same.signals().last(name), rtol=1e-5)
    assert own.identity.recipe["train"] == "tests.train.test_functions:neighbours"


def test_each_model_has_its_own_seed_and_keeps_it(tmp_path: Path) -> None:
    recipe = leakscope.FunctionRecipe(noisy_mean)
    first, again = (complete(tmp_path / name, recipe).signals().last("loss") for name in ("first", "again"))
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first[:, 0])) == len(first)


def test_a_regression_has_one_output(tmp_path: Path) -> None:
    bank = complete(tmp_path, leakscope.FunctionRecipe(noisy_mean), records=regression_records())
    answer = np.random.default_rng(seed_integer(SEED, 0, Purpose.ESTIMATOR, bits=31)).normal()
    expected = (answer - regression_records().labels) ** 2
    np.testing.assert_allclose(bank.signals().last("loss")[0], expected, rtol=1e-4)
    assert set(bank.signals().arrays) == {"loss", "scaled_residual"}


def test_models_that_answer_nan_are_lost(tmp_path: Path) -> None:
    bank = complete(tmp_path, leakscope.FunctionRecipe(broken))
    assert 0 < len(bank.diverged) < 7


@pytest.mark.parametrize(
    ("train", "named"),
    [
        (one_class, "expected (24, 3)"),
        (nothing, "returned NoneType; return a function"),
        (not_a_number, "every model's predict returned NaN or infinity; return finite numbers"),
    ],
)
def test_what_is_no_answer_is_named(tmp_path: Path, train: Any, named: str) -> None:
    with pytest.raises(TrainingError) as error:
        complete(tmp_path, leakscope.FunctionRecipe(train), records=records())
    assert named in str(error.value) and "learning rate" not in str(error.value)
    assert error.value.exit_code == 2  # the same command would end in the same way
    assert f"test_functions:{train.__name__}" in str(error.value)


def test_leakage_of_a_function_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = leakscope.Records(
        rng.normal(size=(120, 5)).astype(np.float32),
        rng.permutation(np.arange(120) % 2),
        np.arange(120).astype(str),
        class_names=("no", "yes"),
    )
    verdict = leakscope.audit(noise, leakscope.FunctionRecipe(neighbours), tmp_path, models=8, device="cpu")
    assert verdict.results.attacks["loss"].auc.low > 0.65
