from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leakscope.data import adult as adult_module
from leakscope.data.adult import adult
from leakscope.errors import DataMissingError, InputError

TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Unmarried, White, Male, 2174, 0, 40, Cuba, <=50K
50, ?, 83311, Bachelors, 13, Divorced, ?, Husband, Black, Female, 0, 0, 13, ?, >50K
39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Unmarried, White, Male, 2174, 0, 40, Cuba, <=50K

"""
TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Sales, Own-child, Black, Male, 0, 0, 40, Cuba, >50K.

"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "adult.data").write_text(TRAIN)
    (tmp_path / "adult.test").write_text(TEST)
    monkeypatch.setattr(adult_module, "FILES", {"adult.data": 3, "adult.test": 1})
    return tmp_path


def test_lines_become_records(folder: Path) -> None:
    records = adult(folder)
    assert list(records.ids) == ["adult.data:1", "adult.data:2", "adult.data:3", "adult.test:2"]
    assert list(records.labels) == [0, 1, 0, 1]
    assert list(records.groups["sex"]) == ["Male", "Female", "Male", "Male"]
    assert list(records.groups["race"]) == ["White", "Black", "White", "Black"]
    assert list(records.groups["split"]) == ["train", "train", "train", "test"]
    assert len(np.unique(records.duplicate_of)) == len(records) - 1


def test_onehot_has_one_column_a_category_and_standard_numbers(folder: Path) -> None:
    features = adult(folder).features
    # workclass: ?, Private, State-gov stand in columns 1 to 3, after age.
    np.testing.assert_array_equal(features[:, 1:4], [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    ages = np.array([39, 50, 39, 25])
    np.testing.assert_allclose(features[:, 0], (ages - ages.mean()) / ages.std(), rtol=1e-6)


def test_integer_codes_are_alphabetical_centred_and_scaled(folder: Path) -> None:
    features = adult(folder, encoding="integer").features
    assert features.shape == (4, 14)
    codes = np.array([2, 0, 2, 1])  # ?, Private, State-gov
    np.testing.assert_allclose(features[:, 1], (codes - codes.mean()) / codes.std(), rtol=1e-6)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-6)


def test_a_constant_column_becomes_zero(folder: Path) -> None:
    features = adult(folder, encoding="integer").features
    assert (features[:, adult_module.COLUMNS.index("capital-loss")] == 0).all()


def test_a_short_file_is_refused_with_both_sizes(folder: Path) -> None:
    lines = (folder / "adult.data").read_text().splitlines()
    (folder / "adult.data").write_text(lines[0] + "\n")
    reason = r"adult\.data is truncated or damaged: it has 1 records, expected 3"
    with pytest.raises(InputError, match=reason):
        adult(folder)


def test_a_line_cut_in_the_middle_is_refused_with_its_number(folder: Path) -> None:
    (folder / "adult.test").write_text(TEST[:80])
    with pytest.raises(InputError, match=r"adult\.test is truncated.*line 2 has \d+ fields, expected 15"):
        adult(folder)


def test_words_in_a_numeric_column_are_refused(folder: Path) -> None:
    (folder / "adult.test").write_text(TEST.replace("25,", "young,"))
    with pytest.raises(InputError, match="column age must be numeric"):
        adult(folder)


def test_missing_files_are_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_text(TRAIN)
    with pytest.raises(DataMissingError, match=r"adult: adult\.test not found .*data fetch adult"):
        adult(tmp_path)


def test_unknown_encoding(folder: Path) -> None:
    with pytest.raises(InputError, match="encoding='binary' must be one of onehot, integer"):
        adult(folder, encoding="binary")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("published_folder", ["adult"], indirect=True)
def test_published_people(published_folder: Path) -> None:
    records = adult(published_folder)
    for split, n_records, n_duplicates, n_rich in (("train", 32_561, 24, 7_841), ("test", 16_281, 5, 3_846)):
        part = records.take(np.flatnonzero(records.groups["split"] == split))
        n_repeated = len(part) - len(np.unique(part.duplicate_of))
        assert (len(part), n_repeated, part.labels.sum()) == (n_records, n_duplicates, n_rich)
    assert set(records.groups["sex"]) == {"Female", "Male"}
    assert len(set(records.groups["race"])) == 5
    integer = adult(published_folder, encoding="integer")
    assert integer.features.shape == (48_842, 14)
    np.testing.assert_allclose(integer.features.std(axis=0), 1, rtol=1e-3)
    np.testing.assert_array_equal(integer.ids, records.ids)
