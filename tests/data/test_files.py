from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.data.columns import Roles
from leakscope.data.file_table import read_file_table
from leakscope.data.files import read_table
from leakscope.errors import InputError
from leakscope.types import Records

TABLE = {
    "patient": ["p1", "p2", "p3", "p4"],
    "age": [31, 52, 47, 60],
    "dose": [0.5, 1.25, 2.0, 0.0],
    "smoker": [True, False, False, True],
    "ward": ["south", "north", "south", "east"],
    "outcome": ["ill", "well", "ill", "well"],
}


def write(folder: Path, suffix: str, **changes: Any) -> Path:
    """TABLE as csv or parquet, with some columns replaced, added, or (None) left out."""
    columns = {name: values for name, values in (TABLE | changes).items() if values is not None}
    path = folder / f"patients{suffix}"
    frame = pl.DataFrame(columns)
    if suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_take_their_roles(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix)
    records = read_table(path, "outcome", id_column="patient", group_columns=["smoker"])
    assert records.name == "patients"
    assert list(records.ids) == TABLE["patient"]
    assert records.class_names == ("ill", "well") and list(records.labels) == [0, 1, 0, 1]
    assert list(records.groups["smoker"]) == ["true", "false", "false", "true"]
    # age, dose, then ward as east, north, south
    expected = [[31, 0.5, 0, 0, 1], [52, 1.25, 0, 1, 0], [47, 2, 0, 0, 1], [60, 0, 1, 0, 0]]
    np.testing.assert_array_equal(records.features, np.array(expected, dtype=np.float32))
    assert records.features.dtype == np.float32


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_feature_columns_choose_and_may_include_a_group(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix)
    records = read_table(path, "outcome", group_columns=["smoker"], feature_columns=["smoker", "age"])
    np.testing.assert_array_equal(records.features, [[1, 31], [0, 52], [0, 47], [1, 60]])
    assert list(records.ids) == ["row-0", "row-1", "row-2", "row-3"]


def test_a_lone_name_is_one_column(tmp_path: Path) -> None:
    path = write(tmp_path, ".csv")
    records = read_table(path, "outcome", group_columns="ward", feature_columns="age")
    assert records.features.shape == (4, 1) and list(records.groups) == ["ward"]


def test_a_missing_group_is_a_group(tmp_path: Path) -> None:
    path = write(tmp_path, ".parquet", ward=["south", None, "south", "east"])
    records = read_table(path, "outcome", id_column="patient", group_columns=["ward"])
    assert records.groups["ward"][1] == "(missing)"


@pytest.mark.parametrize(
    ("values", "class_names", "labels"),
    [
        ([3, 7, 3, -1], ("-1", "3", "7"), [1, 2, 1, 0]),
        ([2.0, 0.0, 2.0, 0.0], ("0", "2"), [1, 0, 1, 0]),
        ([True, False, True, True], ("False", "True"), [1, 0, 1, 1]),
        (["b", "a", "b", "a"], ("a", "b"), [1, 0, 1, 0]),
    ],
)
def test_whole_numbers_bools_and_text_are_classes(
    tmp_path: Path, values: list[Any], class_names: tuple[str, ...], labels: list[int]
) -> None:
    path = write(tmp_path, ".parquet", outcome=values)
    records = read_table(path, "outcome", id_column="patient")
    assert records.class_names == class_names and list(records.labels) == labels
    assert records.labels.dtype == np.int64


def test_fractions_are_a_regression_target(tmp_path: Path) -> None:
    path = write(tmp_path, ".csv")
    records = read_table(path, "dose", id_column="patient", feature_columns=["age"])
    assert not records.is_classification and records.labels.dtype == np.float32
    np.testing.assert_array_equal(records.labels, np.float32(TABLE["dose"]))


def test_task_forces_the_kind_of_label(tmp_path: Path) -> None:
    path = write(tmp_path, ".csv")
    as_number = read_table(path, "age", feature_columns=["dose"], task="regression")
    assert not as_number.is_classification
    as_class = read_table(path, "dose", feature_columns=["age"], task="classification")
    assert as_class.class_names == ("0.0", "0.5", "1.25", "2.0")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": None}, "label is not given; name one of the columns: patient, age"),
        (
            {"label": "outcom"},
            "label column 'outcom' does not exist; did you mean 'outcome'\\? there are: patient",
        ),
        ({"id_column": "pat"}, "id column 'pat' does not exist"),
        ({"group_columns": ["sex"]}, "group column 'sex' does not exist"),
        ({"feature_columns": ["heigth"]}, "feature column 'heigth' does not exist"),
        ({"feature_columns": ["age", "outcome"]}, "'outcome' is the label column and cannot be a feature"),
        ({"feature_columns": ["patient"], "id_column": "patient"}, "'patient' is the id column"),
        ({"feature_columns": []}, "no feature columns are left"),
        ({"id_column": "ward"}, "id column 'ward' is not unique: 'south' is in both line 2 and line 4"),
        ({"task": "ranking"}, "task='ranking' must be one of auto, classification, regression"),
        ({"task": "regression"}, "label 'outcome' is text"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = write(tmp_path, ".csv")
    with pytest.raises(InputError, match=message) as caught:
        read_table(path, **({"label": "outcome"} | options))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dose": [0.5, 1.0, 2.0, 1e300]}, "feature 'dose' is infinite, or too large .* in 1 row .*ROW3"),
        ({"outcome": ["ill", None, "ill", "well"]}, "label 'outcome' has no value .*ROW1"),
        ({"outcome": [0.5, float("inf"), 1.0, 2.0]}, "label 'outcome' is NaN or infinite .*ROW1"),
        ({"outcome": ["ill"] * 4}, "all 4 labels in 'outcome' are 'ill'; an audit needs at least two"),
        ({"patient": ["p1", None, "p3", "p4"]}, "id 'patient' has no value .*ROW1"),
        (
            {"age": ["31", "-Infinity", "47", "60"]},
            "'age' holds text among numbers in 1 row .*: '-Infinity'; ",
        ),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_bad_values_are_named_by_column_and_row(
    tmp_path: Path, suffix: str, changes: dict[str, Any], message: str
) -> None:
    row = re.search(r"ROW(\d)", message)
    if row is not None:
        message = message.replace(row[0], f"line {int(row[1]) + 2}" if suffix == ".csv" else f"row-{row[1]}")
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path, suffix, **changes), "outcome", id_column="patient")


@pytest.mark.parametrize("mark", ["INF", "-Infinity", "NA", "high"])
def test_a_word_among_the_numbers_to_predict_is_named(tmp_path: Path, mark: str) -> None:
    path = write(tmp_path, ".csv", dose=["0.5", "1.5", mark, "2.5"])
    with pytest.raises(
        InputError, match=rf"label 'dose' holds text among numbers in 1 row .*line 4.: '{mark}'; "
    ):
        read_table(path, "dose", task="regression", feature_columns=["age"])


def test_an_unknown_category_among_words_is_a_category(tmp_path: Path) -> None:
    path = write(tmp_path, ".csv", ward=["?", "north", "NA", "?"])
    records = read_table(path, "outcome", id_column="patient", feature_columns=["ward"])
    np.testing.assert_array_equal(records.features.sum(axis=0), [2, 1, 1])


def test_free_text_is_not_a_feature(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    rows = "\n".join(f"note {row},{row % 2}" for row in range(300))
    path.write_text(f"note,label\n{rows}\n")
    with pytest.raises(InputError, match=r"feature 'note' has 300 different text values \(at most 256\)"):
        read_table(path, "label")


def test_an_integer_label_with_a_value_a_row_is_questioned(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("size,price\n" + "\n".join(f"{row % 7},{row}" for row in range(150)) + "\n")
    with pytest.raises(
        InputError, match=r"label 'price' has 150 different values in 150 rows.*task='regression'"
    ):
        read_table(path, "price")
    assert read_table(path, "price", task="classification").n_classes == 150


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_missing_number_is_the_mean_for_networks_and_nan_for_estimators(
    tmp_path: Path, suffix: str
) -> None:
    path = write(tmp_path, suffix, age=[31, None, 47, None], ward=["a", "b", None, "a"])
    records = read_table(path, "outcome", id_column="patient", feature_columns=["age", "ward"])
    assert records.feature_names == ("age", "age=missing", "ward=a", "ward=b", "ward=missing")
    of_networks = [[31, 0, 1, 0, 0], [39, 1, 0, 1, 0], [47, 0, 0, 0, 1], [39, 1, 1, 0, 0]]
    np.testing.assert_array_equal(records.features, of_networks)
    assert records.frame is not None
    of_estimators = np.array(of_networks, dtype=float)
    of_estimators[[1, 3], 0] = np.nan
    np.testing.assert_array_equal(records.frame.data, of_estimators)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_mark_among_numbers_is_a_missing_number(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix, age=["31", "NA", "47", "?"])
    records = read_table(path, "outcome", feature_columns=["age"])
    np.testing.assert_array_equal(records.features, [[31, 0], [39, 1], [47, 0], [39, 1]])
    assert str(records.reading).startswith("1 feature: age number, '?', 'NA' read as missing, ")


def test_dates_are_days(tmp_path: Path) -> None:
    dates = pl.Series(["1970-01-01", "1970-01-11", "1971-01-01", "1969-12-31"])
    for suffix, seen in ((".csv", dates), (".parquet", dates.str.to_date())):
        records = read_table(write(tmp_path, suffix, seen=seen), "outcome", feature_columns=["seen"])
        np.testing.assert_array_equal(records.features[:, 0], [0, 10, 365, -1])
        assert records.reading is not None and records.reading.columns[0].kind == "date"


def test_decimals_and_categories_of_parquet(tmp_path: Path) -> None:
    frame = pl.DataFrame(TABLE).with_columns(
        pl.col("dose").cast(pl.Decimal(10, 2)), pl.col("ward").cast(pl.Categorical)
    )
    frame.write_parquet(tmp_path / "t.parquet")
    records = read_table(tmp_path / "t.parquet", "outcome", feature_columns=["dose", "ward"])
    np.testing.assert_array_equal(records.features[1], [1.25, 0, 1, 0])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty; give a header"),
        ("t.csv", b"a,b\n", "has no rows"),
        ("t.csv", b"a,label\n1,x\n1,2,3,4\n", "has 4 fields in line 3, where the header has 2"),
        (
            "t.csv",
            b"a,label\n\xff\xfe,x\n1,y\n",
            "is not UTF-8 text \\(column 'a', line 2\\); save",
        ),
        ("t.parquet", b"PAR1 not really", "cannot be read as parquet"),
        ("t.npz", b"", "cannot be read as npz"),
        ("t.npz", b"PK\x03\x04 not really", "cannot be read as npz"),
        ("t.doc", b"", r"unknown extension '\.doc'; give .* or a file in \.csv, \.parquet, \.npz"),
    ],
)
def test_unreadable_files_end_as_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(tmp_path / name, "label")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name in ("none.csv", "folder.csv"):
        with pytest.raises(InputError, match=f"{name} does not exist or is not a file"):
            read_table(tmp_path / name, "label")


@pytest.mark.slow
@given(
    numbers=st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=40),
    words=st.lists(st.text("abc", min_size=1, max_size=2), min_size=40, max_size=40),
)
@settings(max_examples=8)  # few and long: a Parquet file is read in a process of its own
def test_csv_and_parquet_give_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[float], words: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("same")
    labels = [f"class {row % 2}" for row in range(len(numbers))]
    frame = pl.DataFrame({"number": numbers, "word": words[: len(numbers)], "label": labels})
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    from_csv, from_parquet = (read_table(folder / name, "label") for name in ("t.csv", "t.parquet"))
    assert from_csv.digest == from_parquet.digest
    np.testing.assert_array_equal(from_csv.features[:, 0], np.float32(numbers))


# npz


def save(folder: Path, **arrays: Any) -> Path:
    path = folder / "arrays.npz"
    np.savez(path, **arrays)
    return path


X = np.arange(6, dtype=np.float64).reshape(3, 2)
Y = np.array([1, 0, 1])


@pytest.mark.parametrize(("features", "labels"), [("features", "labels"), ("x", "y")])
def test_npz_arrays_take_their_roles(tmp_path: Path, features: str, labels: str) -> None:
    path = save(
        tmp_path, **{features: X, labels: Y}, ids=np.array(["a", "b", "c"]), sex=np.array([b"f", b"m", b"f"])
    )
    records = read_table(path, group_columns=["sex"])
    np.testing.assert_array_equal(records.features, X)
    assert records.features.dtype == np.float32
    assert list(records.ids) == ["a", "b", "c"] and list(records.groups["sex"]) == ["f", "m", "f"]
    assert list(records.labels) == [1, 0, 1]


def test_npz_names_can_be_given(tmp_path: Path) -> None:
    path = save(tmp_path, x=X, target=np.array([0.5, 1.0, 2.0])[:, None], key=np.array([10, 11, 12]))
    records = read_table(path, label="target", id_column="key")
    assert list(records.ids) == ["10", "11", "12"] and not records.is_classification


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3, 4, 5), (3, 1, 4, 5)), ((3, 3, 8, 8), (3, 3, 8, 8)), ((3, 1, 2, 2), (3, 1, 2, 2))],
)
def test_npz_images_stay_bytes(tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    records = read_table(save(tmp_path, x=np.zeros(shape, dtype=np.uint8), y=Y))
    assert records.features.shape == expected and records.features.dtype == np.uint8


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "has no array of labels, labels or y; there are: x"),
        ({"y": Y}, "has no array of features"),
        ({"x": X[:2], "y": Y}, "it has: x 2, y 3"),
        ({"x": X[:0], "y": Y[:0]}, "at least one; it has: x 0, y 0"),
        ({"x": X, "y": np.eye(3)}, r"array 'y' has shape \(3, 3\), expected one value per record"),
        (
            {"x": X, "y": Y, "ids": np.array([1, 2, 1])},
            "id column 'ids' is not unique: '1' is both row-0 and row-2",
        ),
        ({"x": np.where(X == 3, np.nan, X), "y": Y}, r"feature 'x' is NaN.*first: row-1"),
        ({"x": X.astype(str), "y": Y}, "features 'x' have type <U"),
        ({"x": np.zeros((3, 8, 8, 3), dtype=np.uint8), "y": Y}, "looks channels-last"),
        ({"x": X, "y": Y.astype(complex)}, "array 'y' has type complex128"),
        ({"x": np.array([{}, {}, {}]), "y": Y}, "holds Python objects, which need pickle.*refused"),
        ({"x": X, "y": np.array(["a", None, "b"])}, "holds Python objects"),
    ],
)
def test_bad_npz_arrays_are_named(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_table(save(tmp_path, **arrays))
    assert "\n" not in str(caught.value)


def test_npz_unknown_names_and_feature_columns(tmp_path: Path) -> None:
    path = save(tmp_path, x=X, y=Y)
    with pytest.raises(InputError, match="label array 'labels' does not exist; there are: x, y"):
        read_table(path, label="labels")
    with pytest.raises(InputError, match="feature_columns is for csv and parquet"):
        read_table(path, feature_columns=["x"])


def test_a_pickle_named_npz_is_refused_unread(tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    (tmp_path / "t.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match="holds Python objects"):
        read_table(tmp_path / "t.npz")
    assert not (tmp_path / "sprung").exists()


def test_a_lone_array_and_a_foreign_member_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, X)
    (tmp_path / "lone.npz").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="holds one array, not an npz archive"):
        read_table(tmp_path / "lone.npz")
    with zipfile.ZipFile(tmp_path / "foreign.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(InputError, match=r"notes\.txt is not an array saved by numpy"):
        read_table(tmp_path / "foreign.npz")


PEOPLE = "person,family,x,y\n007,01,1.5,a\n07,1,2.5,b\n7,01,0.5,a\n12345678901234567890,1,3.5,b\n"


def _as_table_of_estimators(path: Path, *roles: Any) -> Records:
    return read_file_table(path, Roles(*roles, None, "auto"))


@pytest.mark.parametrize("read", [read_table, _as_table_of_estimators])
def test_who_somebody_is_is_text(tmp_path: Path, read: Callable[..., Records]) -> None:
    """Zeros at the start, and digits beyond what a number holds, tell people apart."""
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE)
    records = read(path, "y", "person", ("family",))
    assert records.ids.tolist() == ["007", "07", "7", "12345678901234567890"]
    assert records.groups["family"].tolist() == ["01", "1", "01", "1"]
