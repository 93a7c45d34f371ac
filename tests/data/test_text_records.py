"""Documents of files, folders and lists become records; what cannot be used is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakscope.data.text_records import read_text
from leakscope.errors import InputError
from leakscope.types import Records
from tests.data.tokenizer_folders import word_tokenizer

ROWS = [
    {"body": "the first letter", "author": "ada", "nr": "007", "kind": "good"},
    {"body": "a second one, “quoted”\nover two lines", "author": "bob", "nr": "008", "kind": "bad"},
    {"body": "42", "author": "ada", "nr": "009", "kind": "good"},
    {"body": "the last letter of all", "author": "eve", "nr": "010", "kind": "bad"},
]
TEXTS = [row["body"].replace("42", "42 43") for row in ROWS]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return word_tokenizer(tmp_path_factory.mktemp("tokenizer"), TEXTS)


def jsonl(folder: Path, rows: list[Any]) -> Path:
    path = folder / "letters.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def csv(folder: Path, rows: list[Any]) -> Path:
    import polars as pl

    pl.DataFrame(rows).write_csv(folder / "letters.csv")
    return folder / "letters.csv"


def parquet(folder: Path, rows: list[Any]) -> Path:
    import polars as pl

    pl.DataFrame(rows).write_parquet(folder / "letters.parquet")
    return folder / "letters.parquet"


FORMATS = pytest.mark.parametrize("write", [jsonl, csv, parquet])
Write = Callable[[Path, list[Any]], Path]


def good_rows() -> list[dict[str, str]]:
    return [{**row, "body": text} for row, text in zip(ROWS, TEXTS, strict=True)]


@FORMATS
def test_every_format_gives_the_same_records(write: Write, tmp_path: Path, tokenizer: Path) -> None:
    path = write(tmp_path, good_rows())
    read = read_text(path, tokenizer, "body", id_column="nr", group_columns=["author"], length=12)
    expected = read_text(
        TEXTS,
        tokenizer,
        id_column=[row["nr"] for row in ROWS],
        group_columns={"author": ["ada", "bob", "ada", "eve"]},
        length=12,
    )
    assert read.is_language and read.text is not None and read.name == "letters"
    assert list(read.text.documents) == TEXTS
    assert read.ids.tolist() == ["007", "008", "009", "010"]
    assert read.digest == expected.digest


@FORMATS
def test_a_label_makes_it_a_classification(write: Write, tmp_path: Path, tokenizer: Path) -> None:
    read = read_text(write(tmp_path, good_rows()), tokenizer, "body", label="kind")
    assert read.is_text and not read.is_language
    assert (read.class_names, read.labels.tolist()) == (("bad", "good"), [1, 0, 1, 0])
    assert read.ids.tolist() == ["row-0", "row-1", "row-2", "row-3"]


def test_numbers_in_the_text_column_of_a_csv_stay_as_they_are_written(
    tmp_path: Path, tokenizer: Path
) -> None:
    (tmp_path / "codes.csv").write_text("body\n007 1\n1.50 2\n")
    read = read_text(tmp_path / "codes.csv", tokenizer, "body")
    assert read.text is not None and list(read.text.documents) == ["007 1", "1.50 2"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "'body' has no value in line 2"),
        ("", "'body' is empty in line 2"),
        (" \n\t", "'body' is empty in line 2"),
        (17, "'body' is int, not text, in line 2"),
        (["a"], "'body' is list, not text, in line 2"),
        ("a\0b", "'body' holds a NUL character, which no text has, in line 2"),
        ("a\ud800b", "'body' holds half of a surrogate pair, which is no character, in line 2"),
        ("one", r"1 documents have fewer than 2 tokens \(row-1\).*drop them"),
    ],
)
def test_a_value_that_is_no_document_is_refused_with_its_line(
    tmp_path: Path, tokenizer: Path, value: object, said: str
) -> None:
    rows: list[Any] = good_rows()
    rows[1]["body"] = value
    with pytest.raises(InputError, match=rf"letters\.jsonl: {said}"):
        read_text(jsonl(tmp_path, rows), tokenizer, "body")


def test_all_documents_that_cannot_be_used_are_counted(tokenizer: Path) -> None:
    with pytest.raises(
        InputError, match=r"is empty in row-1 \(3 documents cannot be used in all\); repair or drop"
    ):
        read_text(["a b", "", "c d", " ", None], tokenizer)


@pytest.mark.parametrize("write", [csv, parquet])
def test_empty_cells_are_refused_with_their_row(write: Write, tmp_path: Path, tokenizer: Path) -> None:
    rows: list[Any] = good_rows()
    rows[2]["body"] = None
    with pytest.raises(InputError, match=r"'body' (has no value|is empty) in row-2"):
        read_text(write(tmp_path, rows), tokenizer, "body")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"text": "caf\xe9 x"}\n', r"is not UTF-8 text \(line 1\); save it as UTF-8"),
        (b'{"text": "a b"}\n\n{"text": "a\n', r"line 3 is not JSON .*write one object per line"),
        (b'{"text": "a b"}\n["a"]\n', "line 2 is a list; write one object per line"),
        (b'{"text": "a b"}\n{"txt": "a", "id": 1}\n', r"line 2 has no 'text', only: id, txt; name the field"),
        ('{"text": "a b"}\n'.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (b"\n\n", "has no documents"),
        (b"[" * 100_000, r"line 1 is not JSON"),
    ],
)
def test_a_jsonl_file_that_cannot_be_read_names_the_line(
    tmp_path: Path, tokenizer: Path, content: bytes, said: str
) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=rf"x\.jsonl: {said}"):
        read_text(tmp_path / "x.jsonl", tokenizer)


def test_a_byte_order_mark_is_not_part_of_a_document(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a b"}\r\n{"text": "c d"}\r\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_bytes(b"\xef\xbb\xbfa b")
    for path, texts in ((tmp_path / "x.jsonl", ["a b", "c d"]), (tmp_path / "folder", ["a b"])):
        read = read_text(path, tokenizer)
        assert read.text is not None and list(read.text.documents) == texts


def test_ids_must_be_unique_and_there(tmp_path: Path, tokenizer: Path) -> None:
    rows: list[Any] = good_rows()
    rows[3]["nr"] = "007"
    with pytest.raises(InputError, match=r"'nr' is not unique: '007' is both row-0 and row-3"):
        read_text(jsonl(tmp_path, rows), tokenizer, "body", id_column="nr")
    rows[3]["nr"] = None
    with pytest.raises(InputError, match="id 'nr' has no value in row-3"):
        read_text(jsonl(tmp_path, rows), tokenizer, "body", id_column="nr")
    with pytest.raises(InputError, match="no line has 'number'; check its name"):
        read_text(jsonl(tmp_path, rows), tokenizer, "body", id_column="number")
    with pytest.raises(InputError, match="'nr' mixes values of different types"):
        rows[3]["nr"] = 5
        read_text(jsonl(tmp_path, rows), tokenizer, "body", id_column="nr")


def a_folder(root: Path) -> Path:
    for name, text in {
        "ada/1.txt": "a b c",
        "ada/2.md": "d e",
        "bob/x/3.txt": "f g",
        "top.txt": "h i",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / ".hidden.txt").write_text("")
    (root / "ada" / "photo.png").write_bytes(b"\x89PNG")
    (root / "link.txt").symlink_to("/etc/hostname")
    return root


def test_a_folder_of_texts_has_paths_as_ids_and_folders_as_classes_or_groups(
    tmp_path: Path, tokenizer: Path
) -> None:
    read = read_text(a_folder(tmp_path), tokenizer, label="folder", group_columns="folder")
    assert read.ids.tolist() == ["ada/1.txt", "ada/2.md", "bob/x/3.txt", "top.txt"]
    assert read.groups["folder"].tolist() == ["ada", "ada", "bob/x", "."]
    assert read.class_names == (".", "ada", "bob/x")
    with pytest.raises(InputError, match='can only be "folder"'):
        read_text(tmp_path, tokenizer, label="author")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"caf\xe9", "is not UTF-8 text; save it as UTF-8"),
        (b"a\0b", "holds a NUL"),
        ("a b".encode("utf-16"), "is UTF-16 text"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, tokenizer: Path, content: bytes, said: str) -> None:
    (a_folder(tmp_path) / "bob" / "bad.txt").write_bytes(content)
    with pytest.raises(InputError, match=f"bob/bad.txt {said}"):
        read_text(tmp_path, tokenizer)


def test_windows_are_records_of_one_document(tokenizer: Path) -> None:
    read = read_text(["a b c d e", "f g"], tokenizer, id_column=["x", "y"], length=2, long="windows")
    assert read.ids.tolist() == ["x window 1", "x window 2", "x window 3", "y window 1"]
    assert read.groups["document"].tolist() == ["x", "x", "x", "y"]
    assert read.text is not None and read.text.reading is not None
    assert "50% in windows of 2: 4 records" in read.text.reading.summary()
    with pytest.raises(InputError, match="group 'document' is taken by the windows"):
        read_text(["a b c"], tokenizer, group_columns={"document": ["x"]}, length=2, long="windows")


def test_much_that_is_cut_is_said(tokenizer: Path) -> None:
    read = read_text(["a b c d", "f g h i", "k l"], tokenizer, length=3)
    assert read.text is not None and read.text.reading is not None
    assert read.text.reading.lines() == [
        "3 documents, 4 tokens in the middle, 67% cut at 3",
        "Check: 20% of the tokens are behind the cut, and what a model would remember of them is not "
        'measured; raise length, or set long = "windows"',
    ]


def test_series_of_pandas_and_polars_are_texts(tokenizer: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    digests = {
        read_text(source, tokenizer).digest
        for source in (
            ["a b", "c d"],
            pandas.Series(["a b", "c d"]),
            polars.Series(["a b", "c d"]),
            np.array(["a b", "c d"]),
        )
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": [[1, 2]]}, "is list, not text"),
        ({"source": []}, "texts is empty"),
        ({"source": 3}, "texts is int; give a list"),
        ({"source": ["a b", "c d"], "label": ["x"]}, "label has 1 values, but there are 2 texts"),
        ({"source": ["a b", "c d"], "group_columns": {"id": ["x"]}}, "group id has 1 values"),
        ({"source": "nowhere.jsonl"}, "nowhere.jsonl: does not exist"),
        ({"source": "a.pdf"}, "unknown extension '.pdf'"),
    ],
)
def test_lists_that_are_no_documents_are_refused(tokenizer: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_text(tokenizer=tokenizer, **given)


def test_a_csv_needs_the_name_of_its_text_column(tmp_path: Path, tokenizer: Path) -> None:
    path = csv(tmp_path, good_rows())
    with pytest.raises(InputError, match="text is not given; name the column"):
        read_text(path, tokenizer)
    with pytest.raises(InputError, match="text column 'boddy' does not exist; did you mean 'body'"):
        read_text(path, tokenizer, "boddy")
    import polars as pl

    pl.DataFrame({"body": [1, 2]}).write_parquet(tmp_path / "n.parquet")
    with pytest.raises(InputError, match="'body' has type Int64, expected text; is it the right column"):
        read_text(tmp_path / "n.parquet", tokenizer, "body")


def test_near_copies_are_found_while_reading(tokenizer: Path) -> None:
    base = "we met at the old bridge on a cold monday in march and talked for hours"
    read: Records = read_text([base, "something else", base.replace("cold", "warm")], tokenizer)
    assert read.text is not None and read.text.near_copies is not None
    assert read.text.near_copies.tolist() == [0, 1, 0]


@given(st.binary(max_size=60), st.sampled_from([b"", b'{"text": "a b"}\n', b'{"text": ']))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_bytes_a_jsonl_file_is_read_or_refused(
    tmp_path: Path, tokenizer: Path, content: bytes, start: bytes
) -> None:
    (tmp_path / "x.jsonl").write_bytes(start + content)
    try:
        records = read_text(tmp_path / "x.jsonl", tokenizer)
    except InputError as error:
        assert "x.jsonl: " in str(error)
    else:
        assert records.is_language
