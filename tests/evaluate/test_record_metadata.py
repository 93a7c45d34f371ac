"""What a run remembers of its records comes back as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leakscope.errors import InputError
from leakscope.evaluate.hygiene.shift import ShiftScores
from leakscope.evaluate.record_metadata import RecordMetadata


def test_facts_survive_the_disk(tmp_path: Path) -> None:
    given = RecordMetadata(
        np.array(["a", "b"]),
        np.array(["yes", "no"]),
        {"label": np.array(["x", "ä"]), "town": np.array(["1", "2"])},
        np.array([0, 0]),
        ShiftScores(lambda: np.array([0.25, np.nan])),
    )
    given.write(tmp_path)
    found = RecordMetadata.read(tmp_path)
    assert found.ids.tolist() == ["a", "b"]
    assert found.labels.tolist() == ["yes", "no"]
    assert found.labels.dtype.kind == "U"
    assert {name: values.tolist() for name, values in found.groups.items()} == {
        "label": ["x", "ä"],
        "town": ["1", "2"],
    }
    np.testing.assert_array_equal(found.duplicate_of, [0, 0])
    np.testing.assert_array_equal(found.shift_scores, [0.25, np.nan])


def test_a_regression_without_features_too(tmp_path: Path) -> None:
    RecordMetadata(np.array(["a"]), np.array([1.5], dtype=np.float32)).write(tmp_path)
    found = RecordMetadata.read(tmp_path)
    assert (found.labels.dtype, found.groups, found.duplicate_of) == (np.float32, {}, None)


def test_missing_facts_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"facts\.parquet is missing"):
        RecordMetadata.read(tmp_path)
