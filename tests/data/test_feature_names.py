"""Names for people to read: one a feature, in the order the features have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leakscope.data.files import read_table
from leakscope.data.read_column import read_column
from leakscope.frames.columns import from_array


def test_names_follow_the_encoding() -> None:
    columns = [
        ("age", np.array([1.0, 2.0])),
        ("city", np.array(["Rome", "Paris"])),
        ("ok", np.array([True, False])),
    ]
    encoded = [read_column(from_array(*column)).encoded for column in columns]
    assert [name for one in encoded for name in one.names] == ["age", "city=Paris", "city=Rome", "ok"]
    features = np.concatenate([one.features(one.numbers) for one in encoded], axis=1)
    assert features.tolist() == [[1, 0, 1, 1], [2, 1, 0, 0]]


def test_a_file_of_columns_keeps_its_names_also_of_some_records(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,city,outcome\n1,Rome,yes\n2,Paris,no\n3,Rome,yes\n")
    records = read_table(path, "outcome")
    assert records.feature_names == ("age", "city=Paris", "city=Rome")
    assert records.take(np.array([0, 1])).feature_names == records.feature_names
