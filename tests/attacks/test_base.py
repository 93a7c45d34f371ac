from dataclasses import dataclass

import numpy as np
import pytest

from leakscope.attacks.base import Attack
from leakscope.types import Design

from .banks import made_up_bank


@dataclass(frozen=True)
class Careless(Attack):
    """Returns whatever it is told to."""

    values: object = None

    name = "careless"
    needs = ("loss",)

    def run(self, signals, design, targets):
        return self.values


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (np.zeros((4, 9)), r"careless returned shape \(4, 9\)"),
        (np.zeros((3, 10)), r"careless returned shape \(3, 10\)"),
        (np.full((4, 10), np.nan), "careless left 40 records without a score"),
    ],
)
def test_what_an_attack_returns_is_checked(values, problem):
    with pytest.raises(AssertionError, match=problem):
        Careless(values)(*made_up_bank(0.0, 4, 10))


def test_infinite_and_integer_scores_are_scores():
    values = np.zeros((4, 10), dtype=np.int64)
    assert Careless(values)(*made_up_bank(0.0, 4, 10)).values.dtype == np.float64
    assert np.isinf(Careless(np.full((4, 10), np.inf))(*made_up_bank(0.0, 4, 10)).values).all()


def test_targets_may_be_a_list():
    signals, design = made_up_bank(0.0, 4, 10)
    scores = Careless(np.zeros((2, 10)))(signals, design, [3, 1])
    assert scores.targets.tolist() == [3, 1]
    assert scores.targets.dtype == np.int64


def test_an_attack_cannot_be_made_without_run():
    class Nothing(Attack):
        name = "nothing"
        needs = ()

    with pytest.raises(TypeError, match="abstract"):
        Nothing()


def test_a_design_with_columns_of_their_own_is_fine():
    signals, design = made_up_bank(0.0, 4, 10)
    columns = np.tile(np.arange(10), (4, 1)) + 5
    values = np.arange(40.0).reshape(4, 10)
    found = Careless(values)(signals, Design(design.in_mask, columns))
    np.testing.assert_array_equal(found.values, values)
