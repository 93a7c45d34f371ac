from dataclasses import dataclass

import numpy as np
import pytest

from leakscope.attacks.base import Attack
from leakscope.disk.scratch import Scratch
from leakscope.types import Design

from .banks import made_up_bank


@dataclass(frozen=True)
class Careless(Attack):
    """Fills in whatever it is told to."""

    values: object = None

    name = "careless"
    needs = ("loss",)

    def run(self, signals, design, targets, scores):
        scores[: len(self.values), : self.values.shape[1]] = self.values


@pytest.mark.parametrize(
    ("values", "n_missing"),
    [(np.zeros((4, 9)), 4), (np.zeros((3, 10)), 10), (np.full((4, 10), np.nan), 40)],
)
def test_a_record_without_a_score_is_noticed(values, n_missing):
    with pytest.raises(AssertionError, match=f"careless left {n_missing} records without a score"):
        Careless(values)(*made_up_bank(0.0, 4, 10))


def test_large_scores_lie_on_disk_and_are_the_same(tmp_path):
    signals, design = made_up_bank(0.0, 4, 1000)
    values = np.random.default_rng(0).normal(size=(4, 1000))
    found = Careless(values)(signals, design, scratch=Scratch(tmp_path, in_memory_bytes=1000)).values
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, values)
    assert list(tmp_path.iterdir()) == []  # a file without a name


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
