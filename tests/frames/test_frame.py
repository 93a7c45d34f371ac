"""A table stays what it is: its kind, its columns, its types, whatever rows are taken."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse

from leakscope.errors import InputError
from leakscope.frames.frame import Frame, frame_of

ROWS = np.array([3, 0, 0])
VALUES = [1.5, None, 3.0, 4.0]


def pandas_frame(**options: Any) -> Any:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    return pd.DataFrame(
        {
            "number": np.array([1, 2, 3, 4], dtype=np.int16),
            "nullable": pd.array([1, None, 3, 4], dtype="Int64"),
            "flag": pd.array([True, None, False, True], dtype="boolean"),
            "text": pd.array(["a", None, "b", "ä"], dtype="string"),
            "kind": pd.Categorical(["x", "y", None, "x"], categories=["x", "y", "z"], ordered=True),
            "seen": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04"]).tz_localize(
                "Asia/Tokyo"
            ),
            "mixed": np.array([1, "one", None, 2.5], dtype=object),
        },
        **options,
    )


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "number": pl.Series([1, 2, 3, 4], dtype=pl.UInt8),
            "value": VALUES,
            "text": ["a", None, "b", "c"],
            "kind": pl.Series(["x", "y", None, "x"], dtype=pl.Categorical),
            "seen": [date(2024, 1, 1), None, date(2024, 1, 3), date(2024, 1, 4)],
            "tags": [["p"], [], None, ["q", "r"]],
        }
    )


def digest(frame: Frame) -> list[bytes]:
    return [np.ascontiguousarray(array).tobytes() + str(array.dtype).encode() for array in frame.content()]


def test_pandas_rows_keep_columns_and_types_but_not_the_index() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas_frame(index=[9, 2, 9, 7])
    rows = frame_of(table).rows(ROWS)
    pd.testing.assert_frame_equal(rows, table.iloc[ROWS].reset_index(drop=True))
    assert list(rows.dtypes) == list(table.dtypes)
    assert frame_of(table["text"]).rows(ROWS).tolist() == ["ä", "a", "a"]


def test_polars_rows_keep_columns_and_types() -> None:
    table = polars_frame()
    rows = frame_of(table).rows(ROWS)
    assert rows.schema == table.schema and rows.equals(table[ROWS.tolist()])
    assert frame_of(table["text"]).rows(ROWS).to_list() == ["c", "a", "a"]


@pytest.mark.parametrize(
    "table",
    [
        np.arange(8, dtype=np.float64).reshape(4, 2),
        np.array([["a", 1], ["b", None], ["c", 2.5], ["d", 4]], dtype=object),
        scipy.sparse.csr_matrix(np.eye(4)),
        scipy.sparse.csr_array(np.eye(4)),
    ],
)
def test_arrays_and_sparse_matrices_stay_what_they_are(table: Any) -> None:
    rows = frame_of(table).rows(ROWS)
    assert type(rows) is type(table) and rows.dtype == table.dtype
    dense, wanted = (x.toarray() if scipy.sparse.issparse(x) else x for x in (rows, table[ROWS]))
    np.testing.assert_array_equal(dense, wanted)


@pytest.mark.parametrize(
    "make", [pandas_frame, polars_frame, lambda: np.zeros((4, 2)), lambda: scipy.sparse.eye(4)]
)
def test_who_changes_rows_changes_no_table(make: Any) -> None:
    frame = frame_of(make())
    before = digest(frame)
    for rows in (frame.rows(), frame.rows(ROWS)):
        if frame.kind == "pandas":
            rows.loc[:, "number"] = 0
            del rows["text"]
        elif frame.kind == "array":
            rows += 1
        elif frame.kind == "sparse":
            rows.data[:] = 7
        else:
            rows[0, "number"] = 9
    assert digest(frame) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.rename(columns={"number": "n"}),
        lambda t: t[list(reversed(t.columns))],
        lambda t: t.astype({"number": "int32"}),
        lambda t: t.assign(mixed=np.array(["1", "one", None, 2.5], dtype=object)),
        lambda t: t.assign(kind=t["kind"].cat.as_unordered()),
        lambda t: t.assign(kind=t["kind"].cat.add_categories("w")),
        lambda t: t.assign(nullable=[1, 2, 3, 4]),
        lambda t: t.assign(text=t["text"].astype(object)),
        lambda t: t.iloc[[1, 0, 2, 3]],
    ],
)
def test_another_table_has_another_content(change: Any) -> None:
    table = pandas_frame()
    assert digest(frame_of(change(table))) != digest(frame_of(table))


def test_the_same_table_has_the_same_content_whatever_its_index() -> None:
    assert digest(frame_of(pandas_frame(index=[4, 4, 1, 0]))) == digest(frame_of(pandas_frame()))
    assert digest(frame_of(polars_frame())) == digest(frame_of(polars_frame()))


def test_nan_and_null_of_polars_differ() -> None:
    one, other = pl.DataFrame({"x": [1.0, None]}), pl.DataFrame({"x": [1.0, float("nan")]})
    assert digest(frame_of(one)) != digest(frame_of(other))


def test_equal_rows_have_equal_codes() -> None:
    for table in (pandas_frame(), polars_frame()):
        codes = frame_of(table).take(np.array([1, 0, 1, 2])).row_codes()
        assert (codes[0] == codes[2]).all() and (codes[0] != codes[1]).any() and (codes[0] != codes[3]).any()


@pytest.mark.parametrize(
    "make",
    [
        pandas_frame,
        polars_frame,
        lambda: np.arange(8.0).reshape(4, 2),
        lambda: np.array([["a", 1], ["b", None], ["c", 2.5], ["d", 4]], dtype=object),
        lambda: scipy.sparse.csr_matrix(np.arange(8.0).reshape(4, 2)),
        lambda: polars_frame()["text"],
    ],
)
def test_values_may_come_from_other_records_and_stay_in_their_column(make: Any) -> None:
    frame = frame_of(make())
    n_columns, donors = len(frame.names), np.array([2, 3, 0, 0])
    replaced = np.arange(4 * n_columns).reshape(4, n_columns) % 3 == 0
    mixed = frame_of(frame.mixed(donors, replaced))
    assert type(mixed.data) is type(frame.data)
    assert not hasattr(mixed.data, "dtypes") or list(mixed.data.dtypes) == list(frame.data.dtypes)
    for at in range(n_columns):
        before, after = (f.column(at).series.to_list() for f in (frame, mixed))
        wanted = [before[donors[row] if replaced[row, at] else row] for row in range(4)]
        assert after == wanted


def test_levels_of_names_are_joined() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("size", "min"), ("size", "max")]))
    assert frame_of(table).names == ("size.min", "size.max")
    assert frame_of(table).rows(np.array([0])).columns.equals(table.columns)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([{"a": 1}, {"a": 2}], "X is a list of dicts; give pandas.DataFrame"),
        ({"a": [1, 2]}, "X is dict; give pandas.DataFrame"),
        ([[1, 2], [3]], "rows of different lengths"),
        ([[1, "a"], [2, "b"]], "more than numbers; give a DataFrame"),
        (pl.LazyFrame({"a": [1]}), r"X is a LazyFrame; give X\.collect\(\)"),
        (np.ma.masked_array([[1.0]], mask=[[True]]), r"masked array; give X\.filled"),
        (np.zeros((0, 2)), "X has no rows"),
        (np.zeros((2, 0)), "X has no columns"),
        (np.array([b"a", b"b"]), r"X has type \|S1"),
        (np.zeros(3, dtype=complex), "X has type complex128"),
        (7, "X is int; give a DataFrame or a numpy array"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        frame_of(table)
    assert "\n" not in str(caught.value)


def test_two_columns_of_one_name_are_refused() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(InputError, match="several columns called 'a', 'b'; rename or drop"):
        frame_of(pd.DataFrame(np.zeros((2, 5)), columns=["a", "b", "a", "c", "b"]))


@pytest.mark.parametrize(
    ("values", "dtype", "note", "n_missing"),
    [
        (["a", None, float("nan")], "String", "", 2),
        ([True, None, np.False_], "Boolean", "", 1),
        ([1, 2.5, None], "Float64", "", 1),
        ([1, "1", None], "String", "mixed", 1),
        (
            [date(2024, 1, 1), datetime(2024, 1, 1, 12), None],
            "Datetime(time_unit='us', time_zone=None)",
            "",
            1,
        ),
        ([[1], {"a": 2}, None], "String", "object", 1),
        ([None, None, None], "Float64", "", 3),
        (["\ud800", "b", "c"], "String", "", 0),
    ],
)
def test_objects_are_read_by_what_they_are(values: list[Any], dtype: str, note: str, n_missing: int) -> None:
    array = np.empty((3, 1), dtype=object)
    array[:, 0] = values
    column = frame_of(array).column(0)
    assert (str(column.series.dtype), column.note, column.series.null_count()) == (dtype, note, n_missing)
