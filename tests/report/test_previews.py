"""What the most exposed records look like: thumbnails, telling fields, and their order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakscope.array_types import AnyArray
from leakscope.errors import InputError
from leakscope.report.previews import PREVIEWS, Previews, exposure_order, joined_previews, previews_of
from leakscope.types import Records
from tests.made_up_text import text_records


def records(
    features: AnyArray, names: tuple[str, ...] = (), shape: tuple[int, int, int] | None = None
) -> Records:
    n = len(features)
    ids = np.array([str(i) for i in range(n)])
    labels = (np.arange(n) % 2).astype(np.int64)
    return Records(features, labels, ids, class_names=("a", "b"), feature_names=names, picture_shape=shape)


@pytest.mark.parametrize(
    ("shape", "expected"), [((3, 4, 4), (2, 4, 4, 3)), ((1, 70, 70), (2, 24, 24, 1)), ((4, 4), (2, 4, 4, 1))]
)
def test_images_become_small_pictures(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, *shape)).astype(np.uint8)
    found = previews_of(records(images), np.array([3, 1]))
    assert found.pictures.shape == expected and found.pictures.dtype == np.uint8
    assert found.pictures[0, 0, 0, 0] == images[3].reshape(-1, *shape[-2:])[0, 0, 0]
    assert len(found.fields) == 0


def test_flat_features_that_are_pictures_are_shown_as_such() -> None:
    flat = np.linspace(-1, 1, 2 * 64, dtype=np.float32).reshape(2, 64)
    found = previews_of(records(flat, shape=(1, 8, 8)), np.array([0, 1]))
    assert found.pictures.shape == (2, 8, 8, 1)
    assert (found.pictures[0].min(), found.pictures[1].max()) == (0, 255)


def test_fields_furthest_from_the_mean_come_first_and_absent_categories_not_at_all() -> None:
    features = np.zeros((101, 3), dtype=np.float32)
    features[:, 0] = np.linspace(-1, 1, 101)
    features[100] = [1, 1, 0]
    features[:50, 2] = 1
    (words,) = previews_of(records(features, ("age", "city=Rome", "city=Paris")), np.array([100])).fields
    assert words == "city=Rome, age +1.7 sd"


def test_a_missing_number_is_not_shown_as_the_mean_that_stands_for_it() -> None:
    features = np.zeros((101, 3), dtype=np.float32)
    features[:, 0] = np.linspace(-1, 1, 101)
    features[100] = [-1e-4, 1, 0]
    names = ("age", "age=missing", "height")
    missing, known = previews_of(records(features, names), np.array([100, 99])).fields
    assert missing == "age=missing, height +0.0 sd"
    assert known == "age +1.7 sd, height +0.0 sd"


def test_nameless_features_are_numbered() -> None:
    features = np.array([[0.0], [0.0], [9.0]], dtype=np.float32)
    assert previews_of(records(features), np.array([2])).fields.tolist() == ["feature 0 +1.4 sd"]


def test_previews_are_read_back_joined_and_missed(tmp_path: Path) -> None:
    features = np.eye(4, dtype=np.float32)
    folders = [tmp_path / name for name in "ab"]
    for folder, which in zip(folders, ([0, 1], [1, 3]), strict=True):
        folder.mkdir()
        previews_of(records(features), np.array(which)).write(folder)
    joined = joined_previews([*folders, tmp_path])
    assert joined is not None and joined.records.tolist() == [0, 1, 3]
    whole = previews_of(records(features), joined.records)
    assert joined.fields.tolist() == whole.fields.tolist()
    assert Previews.read(tmp_path) is None and joined_previews([tmp_path]) is None


def test_damaged_previews_are_named(tmp_path: Path) -> None:
    (tmp_path / PREVIEWS).write_bytes(b"PK\x03\x04 no")
    with pytest.raises(InputError, match=r"previews\.npz cannot be read"):
        Previews.read(tmp_path)


def test_order_is_by_advantage_then_bits_then_place_and_undefined_last() -> None:
    advantage = np.array([0.1, np.nan, 0.5, 0.5, 0.1])
    bits = np.array([0.0, 0.9, 0.1, 0.2, 0.0])
    assert exposure_order(advantage, bits, 5).tolist() == [3, 2, 0, 4, 1]
    assert exposure_order(None, bits, 5).tolist() == [1, 3, 2, 0, 4]
    assert exposure_order(None, None, 3).tolist() == [0, 1, 2]
    for most in range(1, 6):
        assert exposure_order(advantage, bits, 5, most).tolist() == [3, 2, 0, 4, 1][:most]
        assert exposure_order(None, bits, 5, most).tolist() == [1, 3, 2, 0, 4][:most]


def test_a_document_is_previewed_by_its_beginning_on_one_line() -> None:
    records = text_records(["short  one", "a", "\n".join(["long"] * 100)])
    fields = previews_of(records, np.array([2, 0])).fields
    assert fields[1] == "short one"
    assert fields[0].startswith("long long") and fields[0].endswith("…") and len(fields[0]) == 240
    unknown = previews_of(replace(records, text=None), np.array([1])).fields
    assert unknown.tolist() == ["tokens 0"]
