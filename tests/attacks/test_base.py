from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from leakscope.attacks import Attack, Lira, Rmia
from leakscope.attacks.shokri import Shokri
from leakscope.disk.scratch import Scratch
from leakscope.errors import InputError
from leakscope.testing import planted_bank
from leakscope.types import Design


@dataclass(frozen=True)
class Filler(Attack):
    """Fills part of the scores with a number."""

    value: float = 0.0
    n_rows: int = 4
    n_records: int = 10

    name = "filler"
    needs = ("loss",)

    def run(self, signals, design, targets, scores):
        scores[: self.n_rows, : self.n_records] = self.value


@dataclass(frozen=True)
class Numbered(Attack):
    """Scores are 0, 1, 2, ... over targets and records."""

    name = "numbered"
    needs = ("loss",)

    def run(self, signals, design, targets, scores):
        scores[:] = np.arange(scores.size).reshape(scores.shape)


@pytest.mark.parametrize(
    ("attack", "n_missing"),
    [(Filler(n_records=9), 4), (Filler(n_rows=3), 10)],
)
def test_a_record_without_a_score_is_noticed(attack, n_missing):
    with pytest.raises(InputError, match=rf"filler\(.*\): {n_missing} scores are missing or NaN"):
        attack(*planted_bank(0.0, 4, 10))


def test_large_scores_lie_on_disk_and_are_the_same(tmp_path):
    signals, design = planted_bank(0.0, 4, 1000)
    scores = Numbered()(signals, design, scratch=Scratch(tmp_path, in_memory_bytes=1000)).values
    assert isinstance(scores, np.memmap)
    np.testing.assert_array_equal(scores, np.arange(4000).reshape(4, 1000))
    assert list(tmp_path.iterdir()) == []  # a file without a name


def test_infinite_scores_are_scores():
    scores = Filler(float("inf"))(*planted_bank(0.0, 4, 10)).values
    assert np.isinf(scores).all() and scores.dtype == np.float64


def test_targets_may_be_a_list():
    scores = Filler()(*planted_bank(0.0, 4, 10), [3, 1])
    assert scores.targets.tolist() == [3, 1]
    assert scores.targets.dtype == np.int64


def test_a_design_with_columns_of_their_own_is_fine():
    signals, design = planted_bank(0.0, 4, 10)
    columns = np.tile(np.arange(10), (4, 1)) + 5
    scores = Numbered()(signals, Design(design.in_mask, columns))
    np.testing.assert_array_equal(scores.values, np.arange(40.0).reshape(4, 10))


class Shapeless(Attack):
    name = "shapeless"
    needs = ("loss",)

    def score(self, block):
        return block.signal("loss")[0]  # one row, which numpy would copy to all targets


def test_scores_of_a_wrong_shape_are_refused():
    with pytest.raises(InputError, match=r"shapeless: `score` returned shape \(10,\), expected .* \(4, 10\)"):
        Shapeless()(*planted_bank(0.0, 4, 10))


class Nothing(Attack):
    pass


class Undecorated(Attack):
    power: int = 2

    name = "undecorated"
    needs = ("loss",)

    def score(self, block):
        return block.of_targets("loss")


@dataclass(frozen=True)
class TypedTrait(Attack):
    name: str = "typed"
    needs = ("loss",)

    def score(self, block):
        return block.of_targets("loss")


@dataclass(frozen=True)
class ListOption(Attack):
    powers: list[int] = None

    name = "lists"
    needs = ("loss",)

    def score(self, block):
        return block.of_targets("loss")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Nothing, "Nothing: set `name`.*; set `needs`.*; write `score` or `run`"),
        (Undecorated, "Undecorated: put @dataclass"),
        (TypedTrait, "TypedTrait: set traits such as `name` without a type"),
        (ListOption, "ListOption: option 'powers' is annotated list"),
    ],
)
def test_a_class_that_breaks_a_rule_is_refused_by_name(make, message):
    with pytest.raises(InputError, match=message):
        make()


@dataclass(frozen=True)
class Choosy(Attack):
    whole: int = 1
    share: float = 0.5
    flag: bool = False
    word: str = "a"
    level: Literal["low", "high"] | None = None

    name = "choosy"
    needs = ("loss",)

    def score(self, block):
        return block.of_targets("loss")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"whole": 1.0}, "whole=1.0: expected an integer"),
        ({"whole": True}, "whole=True: expected an integer"),
        ({"share": "1"}, "share='1': expected a number"),
        ({"share": float("nan")}, "share=nan: expected a number"),
        ({"flag": 1}, "flag=1: expected true or false"),
        ({"word": None}, "word=None: expected text"),
        ({"level": "middle"}, "level='middle': expected low \\| high or none"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_in_one_line(options, expected):
    with pytest.raises(InputError, match=f"^attack='choosy': {expected}$"):
        Choosy(**options)


def test_an_integer_is_a_float_and_numpy_s_numbers_are_python_s():
    assert Choosy(share=1).label == Choosy(share=1.0).label == "choosy(share=1.0)"
    made = Choosy(whole=np.int64(3), share=np.float32(0.25), flag=np.True_)
    assert made.label == "choosy(whole=3, share=0.25, flag=true)"
    assert [type(v) for v in (made.whole, made.share, made.flag)] == [int, float, bool]


def test_references_depend_on_options():
    assert [Lira().references, Lira(online=False).references] == ["both", "out"]
    assert [Rmia().references, Rmia(online=False).references] == ["both", "out"]
    assert [Lira().is_log_ratio, Lira(online=False).is_log_ratio] == [True, False]
    assert Shokri().references == "both"
