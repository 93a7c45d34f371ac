"""How tables in memory are read: the words a user checks, likely mistakes, and what networks get."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse

from leakscope.data.files import read_table
from leakscope.errors import InputError
from leakscope.frames.reading import ColumnReading, TableReading

N = 40
RNG = np.random.default_rng(0)
Y = np.arange(N) % 2


def table(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"age": RNG.integers(18, 90, N), **columns})


def warnings_of(frame: Any, y: Any = Y, **options: Any) -> tuple[str, ...]:
    reading = read_table(frame, y, **options).reading
    assert reading is not None
    return reading.warnings


def test_the_reading_names_every_column() -> None:
    start = datetime(2024, 1, 1)
    frame = table(
        city=[None, *["Rome", "Oslo", "Paris"] * 13],
        vip=[None, *[True, False, True] * 13],
        seen=[start + timedelta(days=int(k)) for k in RNG.permutation(N)],
        income=[f"{k},5" for k in RNG.permutation(N)],
        note=pl.Series([f"{'long ' * (k % 7)}note {k}" for k in range(N)], dtype=pl.Categorical),
    )
    reading = read_table(frame, Y).reading
    assert reading is not None and reading.problems == ()
    assert reading.summary(encoded=True) == (
        "6 features: age number; city text, 3 values, one-hot, 1 missing; vip yes or no, 0 and 1, mean and a "
        "column for missing ones, 1 missing; seen date, days since 1970; income number, decimal comma; "
        "note category, 40 values, one-hot"
    )
    assert reading.summary(encoded=False).endswith(
        "income text that holds a number, decimal comma; note category, 40 values"
    )
    assert "'income' is text that holds numbers; an estimator gets text: convert" in str(reading)
    wide = read_table(np.random.default_rng(0).normal(size=(N, 784)), Y).reading
    assert wide is not None and wide.summary(encoded=True) == "784 features, all numbers"
    mixed = TableReading(
        (*(ColumnReading(f"x{at}", "number") for at in range(6)), ColumnReading("town", "text", 4))
    )
    assert mixed.summary(encoded=True) == "7 features: 6 numbers (x0, x1, x2 and 3 more); town text, 4 values"


@pytest.mark.parametrize(
    ("column", "warning"),
    [
        ({"unnamed": np.arange(N)}, "'unnamed' counts the rows; as a feature it tells a model which record"),
        ({"person_id": RNG.permutation(N) * 7}, "'person_id' looks like an identifier"),
        ({"person": [f"p{k:03d}" for k in range(N)]}, "'person' looks like an identifier"),
        ({"site": ["Rome"] * N}, "'site' is the same in every row; leave it out"),
        ({"nothing": [None] * N}, "'nothing' has no value in any row; leave it out"),
        ({"answer": np.where(Y, "yes", "no")}, "'answer' determines the label in every row"),
        ({"digits": [str(k % 9) for k in range(N)]}, "'digits' is text, though every value is a number"),
        (
            {"mixed": pl.Series([*[1, "a", "b"] * 13, 1], dtype=pl.Object)},
            "'mixed' mixes values of several types",
        ),
    ],
)
def test_likely_mistakes_are_named(column: dict[str, Any], warning: str) -> None:
    assert warnings_of(table()) == ()
    (text,) = warnings_of(table(**column))
    assert text.startswith(warning)


@pytest.mark.parametrize(
    ("rare", "start"),
    [
        (["maybe"], ["class 'maybe' has a single record; a model that is not trained on it never sees its "]),
        (["maybe", "well"], ["the classes 'maybe', 'well' have a single record each; "]),
        (["maybe", "maybe"], []),
    ],
)
def test_classes_with_a_single_record_are_named(rare: list[str], start: list[str]) -> None:
    labels = np.array(["no", "yes"] * (N // 2))
    labels = np.array([*labels[: N - len(rare)], *rare])
    found = warnings_of(table(), labels)
    assert [text[: len(wanted)] for text, wanted in zip(found, start, strict=True)] == start


def test_a_number_column_with_a_few_bad_cells_is_named() -> None:
    (text,) = warnings_of(table(size=[*map(str, RNG.permutation(N - 2)), "unknown", "unknown"]))
    assert text.startswith("feature 'size' holds text among numbers in 2 rows (first: row-38): 'unknown'; ")


def test_a_finer_column_that_determines_the_label_is_named_unless_it_may_by_chance() -> None:
    code = RNG.permutation(np.repeat(np.arange(8), 20))
    (text,) = warnings_of(pl.DataFrame({"code": code}), code >= 4)
    assert text.startswith("'code' determines the label in every row")
    assert warnings_of(pl.DataFrame({"code": code}), np.append(code[1:] >= 4, True)) == ()
    distinct = RNG.permutation(160)
    assert warnings_of(pl.DataFrame({"size": distinct}), distinct >= 80) == ()


def test_a_number_that_is_the_label_and_a_label_of_many_classes() -> None:
    labels = RNG.normal(size=N)
    (text,) = warnings_of(table(twice=2 * labels), labels)
    assert text.startswith("'twice' determines the label")
    many = np.arange(1010) % 505
    (text,) = warnings_of(RNG.normal(size=(1010, 2)), many)
    assert text.startswith("the label has 505 classes, the smallest with 2 records")


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ({"note": [f"words {k}" for k in range(300)]}, "feature 'note' has 300 different text values"),
        ({"size": [np.inf, *range(299)]}, "feature 'size' is infinite, or too large .* in 1 row"),
        ({"tags": [["a"]] * 300}, "feature 'tags' holds neither numbers nor text; convert it"),
    ],
)
def test_what_networks_cannot_use_is_a_problem_and_still_a_record(
    column: dict[str, Any], problem: str
) -> None:
    frame = pl.DataFrame({"age": np.arange(300) % 50, **column}, strict=False)
    records = read_table(frame, np.arange(300) % 2)
    assert records.reading is not None and np.isfinite(records.features).all()
    (text,) = records.reading.problems
    assert re.match(problem, text)


def test_a_column_without_any_value_is_filled() -> None:
    records = read_table(np.array([[1.0, np.nan], [2.0, np.nan], [4.0, np.nan]]), [0, 1, 0])
    np.testing.assert_array_equal(records.features, [[1, 0, 1], [2, 0, 1], [4, 0, 1]])


@pytest.mark.parametrize(
    ("y", "names", "labels"),
    [
        (["b", "a", "b"], ("a", "b"), [1, 0, 1]),
        ([True, False, True], ("False", "True"), [1, 0, 1]),
        (np.array([[2], [0], [2]]), ("0", "2"), [1, 0, 1]),
        (np.array(["x", "y", "x"], dtype=object), ("x", "y"), [0, 1, 0]),
        (pl.Series("label", ["x", "y", "x"], dtype=pl.Categorical), ("x", "y"), [0, 1, 0]),
        (["1,5", "2,25", "1,5"], (), [1.5, 2.25, 1.5]),
        ([0.5, 1.0, 2.0], (), [0.5, 1.0, 2.0]),
    ],
)
def test_labels_of_every_kind(y: Any, names: tuple[str, ...], labels: list[float]) -> None:
    records = read_table(np.eye(3), y)
    assert records.class_names == names and records.labels.tolist() == labels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": None}, "y is missing; give one of feature 0"),
        ({"label": [0, 1]}, "y has 2 values, but X has 3 rows"),
        ({"label": np.zeros((3, 2))}, r"y has shape \(3, 2\); give one value per row"),
        ({"label": ["a", None, "b"]}, r"label 'y' has no value in 1 row \(first: row-1\)"),
        ({"label": [1.0, float("nan"), 0.0]}, r"label 'y' has no value in 1 row \(first: row-1\)"),
        ({"label": "outcome"}, "y column 'outcome' does not exist; there are: feature 0"),
        ({"label": 7}, "y is int; give the name of a column, or one value per row"),
        ({"label": ["a", "a", "a"]}, "all 3 labels in 'y' are 'a'"),
        ({"label": [datetime(2024, 1, 1)] * 3}, "label 'y' has type Datetime"),
        ({"id_column": ["a", "a", "b"]}, "id column 'ids' is not unique"),
        ({"id_column": ["a", None, "b"]}, "id 'ids' has no value"),
        ({"group_columns": ["sex"]}, "group column 'sex' does not exist"),
        ({"group_columns": {"sex": ["f"]}}, r"groups\['sex'\] has 1 values, but X has 3 rows"),
        ({"feature_columns": ["heigth"]}, "feature column 'heigth' does not exist"),
    ],
)
def test_what_does_not_belong_to_the_table_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_table(np.eye(3), **({"label": [0, 1, 0]} | options))
    assert "\n" not in str(caught.value)


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(
        InputError, match=r"y has 2 values.*; id column 'ids' is not unique.*; group column 'sex'"
    ):
        read_table(np.eye(3), [0, 1], ["a", "a", "b"], ["sex"])


def test_one_row_is_refused() -> None:
    with pytest.raises(InputError, match="all 1 labels in 'y' are '1'; an audit needs at least two classes"):
        read_table(np.eye(1), [1])


def test_label_and_ids_by_name_are_no_features_but_groups_stay() -> None:
    frame = pl.DataFrame({"id": ["p", "q"], "sex": ["f", "m"], "age": [30, 40], "outcome": [0, 1]})
    records = read_table(frame, "outcome", "id", ["sex"])
    assert records.frame is not None and records.frame.names == ("sex", "age")
    assert records.ids.tolist() == ["p", "q"] and records.groups["sex"].tolist() == ["f", "m"]
    by_values = read_table(frame[["sex", "age"]], frame["outcome"], frame["id"], {"sex": frame["sex"]})
    assert by_values.digest == records.digest
    assert read_table(frame, "outcome", "id", frame[["sex"]]).digest == records.digest
    assert read_table(frame, "outcome", feature_columns=["age"]).feature_names == ("age",)


def test_an_index_of_pandas_that_is_not_the_table_s_is_refused() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"age": [1, 2, 3]}, index=[7, 8, 9])
    y = pd.Series([0, 1, 0], index=[7, 8, 9], name="ill")
    assert read_table(frame, y).labels.tolist() == [0, 1, 0]
    for other in (y.iloc[[2, 1, 0]], y.reset_index(drop=True)):
        with pytest.raises(
            InputError, match=r"y has another index than X; give y\.loc\[X\.index\], or y\.to_numpy"
        ):
            read_table(frame, other)
    assert (
        read_table(frame, y.to_numpy()).digest == read_table(frame.reset_index(drop=True), y.tolist()).digest
    )
    with pytest.raises(InputError, match="groups has another index"):
        read_table(frame, y, group_columns=pd.DataFrame({"sex": ["f", "m", "f"]}))


def test_sparse_matrices_are_dense_for_the_checks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = scipy.sparse.csr_matrix(np.eye(3))
    records = read_table(matrix, [0, 1, 0])
    np.testing.assert_array_equal(records.features, np.eye(3))
    monkeypatch.setattr("leakscope.data.frame_records.MOST_DENSE_BYTES", 10)
    with pytest.raises(InputError, match=r"X is sparse, and its 3 columns take .* in a Pipeline"):
        read_table(matrix, [0, 1, 0])


def test_duplicates_are_those_of_the_table() -> None:
    texts = np.array(
        [["a much longer text", 1.0], ["b much longer text", 1.0], ["a much longer text", 1.0]], object
    )
    assert read_table(texts, ["x", "y", "x"]).duplicate_of.tolist() == [0, 1, 0]
    assert read_table(texts, ["x", "y", "y"]).duplicate_of.tolist() == [0, 1, 2]


def test_images_in_an_array_stay_images() -> None:
    records = read_table(np.zeros((2, 3, 8, 8), dtype=np.uint8), [0, 1])
    assert records.features.shape == (2, 3, 8, 8) and records.frame is None and records.reading is None


def pandas_columns() -> dict[str, Any]:
    """One column of each type, each of twenty rows; what it is read as."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    return {
        "number": pd.arrays.SparseArray([0.0, 1.0, 2.0, 0.0] * 5),
        "category": pd.cut(np.arange(20), 4),
        "object": pd.arrays.IntervalArray.from_breaks(range(21)),
        "duration": pd.to_timedelta(np.arange(20) ** 2, unit="h"),
        "date": pd.date_range("2024-01-01", periods=20, tz="Asia/Tokyo"),
        "yes or no": pd.array([True, None] * 10, dtype="boolean"),
        "text": pd.array(["a", "b", None, "c"] * 5, dtype="string"),
    }


@pytest.mark.parametrize("kind", ["number", "category", "object", "duration", "date", "yes or no", "text"])
def test_every_type_of_pandas_is_read(kind: str) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    check_reading(pd.DataFrame({"column": pandas_columns()[kind]}), kind)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("number", pl.Series([1, 2] * 10).cast(pl.Decimal(10, 2))),
        ("number", pl.Series([None] * 20)),
        ("duration", pl.Series([timedelta(1), None] * 10)),
        ("object", pl.Series([{"a": 1}, {"a": 2}] * 10)),
        ("object", pl.Series([b"a", b"b"] * 10)),
        ("category", pl.Series(["x", "y"] * 10, dtype=pl.Enum(["x", "y"]))),
        ("number", pl.Series([1, 2] * 10, dtype=pl.Int128)),
        ("number", pl.Series([10**400, 2] * 10, dtype=pl.Object)),
        ("object", pl.Series([1j, 2] * 10, dtype=pl.Object)),
    ],
)
def test_every_type_of_polars_is_read(kind: str, column: pl.Series) -> None:
    check_reading(pl.DataFrame({"column": column}), kind)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("number", np.arange(20) % 3 + np.float16(0.5)),
        ("number", (np.arange(20) % 3).astype(">f8")),
        ("number", (np.arange(20) % 3).astype(np.longdouble)),
        ("date", np.arange(20).astype("M8[D]")),
        ("text", np.array(["a", "b"] * 10, dtype=np.dtypes.StringDType())),
    ],
)
def test_every_type_of_numpy_is_read(kind: str, values: Any) -> None:
    check_reading(values[:, None], kind)


def check_reading(table: Any, kind: str) -> None:
    """Read as this kind, compared, searched for duplicates and divided."""
    records = read_table(table, np.arange(20) % 2)
    assert records.reading is not None and records.reading.columns[0].kind == kind
    half = records.take(np.arange(10))
    assert half.digest != records.digest == read_table(table, np.arange(20) % 2).digest
    assert len(half.duplicate_of) == 10 and np.isfinite(records.features).all()


@pytest.mark.parametrize("make", ["Categorical", "Index", "array"])
def test_labels_and_ids_may_be_arrays_of_pandas(make: str) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    labels, ids = (getattr(pd, make)(values) for values in (["a", "b", "a"], ["x", "y", "z"]))
    records = read_table(np.eye(3), labels, ids)
    assert records.labels.tolist() == [0, 1, 0] and records.ids.tolist() == ["x", "y", "z"]
