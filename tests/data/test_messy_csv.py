"""Eight csv files as people have them: each is read right, or refused in one line with column and remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from leakscope.audits.initial.look import look_at
from leakscope.data.columns import Roles
from leakscope.data.csv_form import scan_csv
from leakscope.data.file_table import read_file_table
from leakscope.data.files import read_table
from leakscope.errors import InputError
from leakscope.frames.reading import ColumnReading
from leakscope.types import Records


def read(folder: Path, content: str | bytes) -> Records:
    path = folder / "people.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(path, "outcome")


def refusal(folder: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, content)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder / 'people.csv'}: ")


def columns(records: Records) -> tuple[ColumnReading, ...]:
    assert records.reading is not None
    return records.reading.columns


def test_decimal_commas(tmp_path: Path) -> None:
    records = read(tmp_path, "height;income;outcome\n1,85;22.100,5;yes\n1,7;900;no\n-0,5;1.000.000;no\n")
    np.testing.assert_array_equal(records.features, np.float32([[1.85, 22100.5], [1.7, 900], [-0.5, 1e6]]))
    assert [column.note for column in columns(records)] == ["decimal comma", "decimal comma"]


def test_thousands_are_read_and_what_can_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    records = read(tmp_path, 'income,outcome\n"22,100.50",yes\n"1,000,000",no\n900,no\n')
    np.testing.assert_array_equal(records.features[:, 0], np.float32([22100.5, 1e6, 900]))
    text = refusal(tmp_path, 'income,fee,outcome\n"22,100","1,5",yes\n"31,000","1.5",no\n900,2,no\n')
    first, second = text.split("; feature ")  # all problems at once
    assert first == (
        "feature 'income' holds numbers with commas, such as '22,100', that can be read in two ways in 2 "
        "rows (first: line 2); write 1234.5 for a number, without separators"
    )
    assert second.startswith("'fee' holds numbers with commas, such as '1,5', of more than one form in 1 row")


def test_the_line_is_that_of_an_editor(tmp_path: Path) -> None:
    """Texts of several lines and empty lines come before it; the header is line 1."""
    text = 'note,age,outcome\n"two\nlines",1,yes\n\n,,\nb,2,no\nc,1e300,no\n'
    assert "'age' is infinite, or too large for 32-bit numbers, in 1 row (first: line 7);" in (
        refusal(tmp_path, text)
    )


def test_mixed_types(tmp_path: Path) -> None:
    ages = [*map(str, range(20, 80)), "unknown", "about 40"]
    rows = "".join(f"{age},{row % 2}\n" for row, age in enumerate(ages))
    assert refusal(tmp_path, f"age,outcome\n{rows}") == (
        "feature 'age' holds text among numbers in 2 rows (first: line 62): 'about 40', 'unknown'; correct "
        "those cells, leave them empty, or leave the column out"
    )
    flats = "".join(f"{row}{'AB'[row % 2]},{row % 2}\n" for row in range(20)) + "12,1\n"
    assert columns(read(tmp_path, f"flat,outcome\n{flats}"))[0].text(True) == "flat text, 21 values, one-hot"
    codes = read(tmp_path, "zip,outcome\n01067,yes\n80331,no\nNA,no\n")
    assert codes.feature_names == ("zip=01067", "zip=80331", "zip=NA"), "zeros in front are no numbers"


@pytest.mark.parametrize("code", ["01067", '"01067"', "-01", "00", "0" * 30 + "1"])
@pytest.mark.parametrize("row", [0, 7, 25_000])
def test_numbers_with_leading_zeros_are_text(tmp_path: Path, code: str, row: int) -> None:
    others = [str(place % 9 + 1) for place in range(30_000)]
    others[row] = code
    lines = [f"{place % 5},{text},{place % 2 + 0.25}\n" for place, text in enumerate(others)]
    path = tmp_path / "people.csv"
    path.write_text(f"age,zip,outcome\n{''.join(lines)}")
    found = scan_csv(path, infer_schema_length=None).collect()
    assert found["zip"].to_list() == [text.strip('"') for text in others]
    assert [str(dtype) for dtype in found.dtypes] == ["Int64", "String", "Float64"]


def test_leading_zeros_are_found_wherever_a_part_of_the_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv"
    for part, cached in ((3, 1), (5, 2), (8, 3), (1 << 20, 4)):
        monkeypatch.setattr("leakscope.data.csv_form._AT_ONCE", part)
        monkeypatch.setattr("leakscope.data.csv_form._IN_CACHE", cached)
        for text in ("01,1\n2,1\n", "1,2\n1,02\n", "1,2\n12,07", "1,2\n123,+07", "10,0.01\n0,1e-05\n"):
            path.write_text(f"a,b\n{text}")
            types = scan_csv(path, infer_schema_length=None).collect_schema().dtypes()
            assert (pl.String in types) == ("e-05" not in text), (text, part)


def test_numbers_without_leading_zeros_stay_numbers(tmp_path: Path) -> None:
    text = "0,0.05,2024-01-02,100,1e-05,-0.0\n10,00.5,2024-01-03,1007,1.05e-05,5.007\n"
    (tmp_path / "people.csv").write_text(f"a,b,day,d,e,f\n{text}")
    types = scan_csv(tmp_path / "people.csv", infer_schema_length=None).collect_schema().dtypes()
    assert [str(dtype) for dtype in types] == ["Int64", "Float64", "String", "Int64", "Float64", "Float64"]


def test_classes_with_leading_zeros_stay_apart(tmp_path: Path) -> None:
    assert read(tmp_path, "age,outcome\n31,01\n52,1\n40,02\n").class_names == ("01", "02", "1")
    table = read_file_table(tmp_path / "people.csv", Roles("outcome", None, (), None, "auto"))
    assert table.class_names == ("01", "02", "1")
    with pytest.raises(InputError, match="label 'outcome' is text, because '01' has leading zeros"):
        read_table(tmp_path / "people.csv", "outcome", task="regression")


def test_features_with_leading_zeros_are_categories(tmp_path: Path) -> None:
    records = read(tmp_path, "zip,outcome\n01067,yes\n1067,no\n80331,no\n")
    assert records.feature_names == ("zip=01067", "zip=1067", "zip=80331")
    np.testing.assert_array_equal(records.features, np.eye(3))


def test_numbers_with_signs_and_spaces_and_units(tmp_path: Path) -> None:
    records = read(tmp_path, "change,size,price,outcome\n+5, 12,$5,yes\n-6,13 ,$6,no\n")
    np.testing.assert_array_equal(records.features[:, :2], [[5, 12], [-6, 13]])
    assert records.reading is not None and records.reading.warnings == (
        "'price' is text, such as '$5'; write plain numbers if they are meant",
    )
    assert "remove that line" in refusal(tmp_path, "sep=;\nage;outcome\n1;yes\n2;no\n")


def test_a_byte_order_mark(tmp_path: Path) -> None:
    records = read(tmp_path, "\ufeffage,outcome\n31,yes\n52,no\n".encode())
    assert records.feature_names == ("age",)
    assert read(tmp_path, "\ufeffoutcome,age\nyes,31\nno,52\n".encode()).class_names == ("no", "yes")


def test_latin_1(tmp_path: Path) -> None:
    content = "city,outcome\nParis,yes\nKöln,no\n".encode("latin-1")
    assert refusal(tmp_path, content) == (
        "is not UTF-8 text (column 'city', line 3); save it as UTF-8, for example with "
        "`iconv -f latin1 -t utf-8`"
    )
    assert "line 1)" in refusal(tmp_path, "größe,outcome\n1,yes\n2,no\n".encode("latin-1"))
    assert columns(read(tmp_path, "city,outcome\nParis,yes\nKöln,no\n"))[0].values == 2


def test_quoted_newlines(tmp_path: Path) -> None:
    records = read(tmp_path, 'note,age,outcome\n"two\nlines, and a comma",1,yes\n"a ""quote""",2,no\n')
    assert records.feature_names == ('note=a "quote"', "note=two\nlines, and a comma", "age")
    np.testing.assert_array_equal(records.features, [[0, 1, 1], [1, 0, 2]])


def test_label_ids_and_features_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,seen,outcome\n1,1.2.2024,\n1,2.2.2024,yes\n")
    pattern = "label 'outcome' has no value.*; id column 'id' is not unique.*; feature 'seen' holds dates"
    with pytest.raises(InputError, match=pattern):
        read_table(path, "outcome", "id")


def test_duplicate_headers(tmp_path: Path) -> None:
    assert refusal(tmp_path, "age,dose,age,outcome\n1,2,3,yes\n4,5,6,no\n") == (
        "has several columns called 'age'; rename or remove all but one"
    )


def test_dates(tmp_path: Path) -> None:
    records = read(
        tmp_path,
        "seen,at,outcome\n1970-01-02,1970-01-01T12:00:00Z,yes\n,1970-01-02 00:00,no\n1970-01-04,NA,no\n",
    )
    np.testing.assert_array_equal(records.features, [[1, 0, 0.5, 0], [2, 1, 1, 0], [3, 0, 0.75, 1]])
    assert [column.kind for column in columns(records)] == ["date", "date"]
    assert refusal(tmp_path, "seen,born,outcome\n03/04/2024,2024-02-30,yes\n05/06/2024,2024-02-01,no\n") == (
        "feature 'seen' holds dates such as '03/04/2024' in 2 rows (first: line 2); write year, month and "
        "day, as in 2024-12-31; feature 'born' holds '2024-02-30', which is no date in 1 row (first: line "
        "2); correct it, or leave the cell empty"
    )


@pytest.mark.slow
def test_a_million_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    age, city = rng.integers(18, 90, n), rng.choice(["Rome", "Paris", "Oslo"], n)
    income = np.where(rng.random(n) < 0.01, "NA", rng.integers(1, 99_999, n).astype(str))
    frame = pl.DataFrame({"age": age, "city": city, "income": income, "outcome": age // 60})
    records = read(tmp_path, frame.write_csv())
    np.testing.assert_array_equal(records.features[:, 0], age)
    cities = np.array(["Oslo", "Paris", "Rome"])
    np.testing.assert_array_equal(records.features[:, 1:4], city[:, None] == cities)
    np.testing.assert_array_equal(records.features[:, 5], income == "NA")
    known = income != "NA"
    np.testing.assert_array_equal(records.features[known, 4], income[known].astype(np.float32))
    assert columns(records)[2].missing == int((~known).sum())


def warnings(records: Records) -> tuple[str, ...]:
    assert records.reading is not None
    return records.reading.warnings


@pytest.mark.parametrize("end", ["\n\n\n", ",,\n,,\n", "\r\n\r\n", ",,"])
def test_rows_without_any_value_are_no_records(tmp_path: Path, end: str) -> None:
    records = read(tmp_path, f"age,town,outcome\n31,Ulm,yes\n\n32,Bonn,no\n{end}")
    assert len(records) == 2 and records.ids.tolist() == ["row-0", "row-1"]
    quoted = read(tmp_path, 'note,age,outcome\n"a\n\n,,\nb",31,yes\nc,32,no\n')
    assert quoted.feature_names[0] == "note=a\n\n,,\nb" and len(quoted) == 2


def test_a_row_of_empty_cells_beside_a_label_is_a_record(tmp_path: Path) -> None:
    assert len(read(tmp_path, "age,town,outcome\n31,Ulm,yes\n,,no\n,,\n")) == 2


def test_a_row_with_too_many_fields_is_named(tmp_path: Path) -> None:
    text = 'note,age,outcome\n"two\nlines",31,yes\nb,32,no\nc,3,2,no\n'
    assert refusal(tmp_path, text) == (
        "has 4 fields in line 5, where the header has 3; quote texts and numbers that contain ',', or remove "
        "the extra field"
    )


def test_no_text_at_all(tmp_path: Path) -> None:
    assert refusal(tmp_path, "") == "is empty; give a header and one record per line"
    unicode_text = "age\toutcome\n31\tyes\n32\tno\n".encode("utf-16")
    assert refusal(tmp_path, unicode_text) == (
        "is UTF-16 text; save it as UTF-8, for example with `iconv -f utf-16 -t utf-8`"
    )


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.csv.gz", "unpack it first"),
        ("a.xlsx", "save it as csv in UTF-8"),
        ("a.tsv", "rename it to end in .csv"),
    ],
)
def test_files_of_other_kinds_name_the_way_to_a_csv(tmp_path: Path, name: str, remedy: str) -> None:
    with pytest.raises(InputError, match=remedy):
        read_table(tmp_path / name, "outcome")


def test_values_that_differ_only_in_spaces_or_case_are_pointed_at(tmp_path: Path) -> None:
    """Otherwise an audit has four classes where there are two, and says nothing."""
    rows = "".join(f"{town},{row},{label}\n" for row, (town, label) in enumerate(
        [("Ulm", "yes"), ("ulm", "no"), ("Bonn", "yes  "), ("Ulm", "no")]))  # fmt: skip
    records = read(tmp_path, f"town,x,outcome\n{rows}")
    assert records.class_names == ("no", "yes", "yes  ")
    assert [text.partition(",")[0] for text in warnings(records)] == [
        "the label has the values 'yes' and 'yes  '",
        "'town' has the values 'Ulm' and 'ulm'",
    ]


def test_identifiers_that_repeat_are_pointed_at(tmp_path: Path) -> None:
    rows = "".join(f"P{row // 2},S{row % 3},{row % 7 % 2}\n" for row in range(40))
    (warning,) = warnings(read(tmp_path, f"id,shop_id,outcome\n{rows}"))
    assert warning.startswith("'id' is called like an identifier, but its values repeat")


def test_times_of_day_are_text_and_pointed_at(tmp_path: Path) -> None:
    rows = "".join(f"{row % 12:02d}:30,{row % 7 % 2}\n" for row in range(40))
    (warning,) = warnings(read(tmp_path, f"at,outcome\n{rows}"))
    assert warning == "'at' is text, such as '00:30'; write plain numbers if they are meant"


@pytest.mark.parametrize(
    "content",
    [
        "age,city,outcome\n31,Oslo,yes\n52,no\n40,Oslo,no\n",
        "outcome,age,city\nyes,31,Oslo\nno,Paris\nno,40,Oslo\n",
        'age,city,outcome\n31,"Oslo, Norway",yes\n52,no\n40,Oslo,no\n',
        "age;city;outcome\n31;Oslo;yes\n52;no",
    ],
)
def test_a_line_with_too_few_fields(tmp_path: Path, content: str) -> None:
    wanted = "has 2 fields in line 3, where the header has 3; add the missing fields, or remove that line"
    assert refusal(tmp_path, content) == wanted
    with pytest.raises(InputError) as caught:
        look_at(tmp_path / "people.csv")
    assert str(caught.value).endswith(f"people.csv: {wanted}")


def test_empty_cells_and_empty_lines_are_no_lines_with_too_few_fields(tmp_path: Path) -> None:
    records = read(tmp_path, "outcome,age,city\nyes,31,\n\nno,52,Oslo\n,,\n\n")
    assert records.feature_names == ("age", "city=Oslo", "city=missing") and len(records) == 2
    assert look_at(tmp_path / "people.csv").n_rows == 2
