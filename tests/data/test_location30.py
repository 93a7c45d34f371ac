from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from leakscope.data import location30 as location30_module
from leakscope.data.location30 import ARCHIVE, location30
from leakscope.errors import DataMissingError, InputError

GOOD = '"3",0,1,1\n"1",1,0,0\n'


def write_archive(folder: Path, name: str, text: str) -> None:
    content = text.encode()
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(location30_module, "N_RECORDS", 2)
    monkeypatch.setattr(location30_module, "N_FEATURES", 3)
    write_archive(tmp_path, "bangkok", GOOD)
    return tmp_path


def test_rows_become_records_and_nothing_is_extracted(folder: Path) -> None:
    records = location30(folder)
    np.testing.assert_array_equal(records.features, [[0, 1, 1], [1, 0, 0]])
    assert list(records.labels) == [2, 0]
    assert records.class_names[0] == "1" and len(records.class_names) == 30
    assert [path.name for path in folder.iterdir()] == [ARCHIVE]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"3",0,1,1\n', "has 1 rows of 4 columns, expected 2 rows of 4 columns"),
        ('"3",0,1\n"1",1,0\n', "has 2 rows of 3 columns"),
        ('"3",0,1,1\n"1",1,0\n', "is malformed"),
        ('"3",0,x,1\n"1",1,0,0\n', "is malformed"),
        ('"31",0,1,1\n"1",1,0,0\n', "classes 1 to 30"),
        ('"3",0,2,1\n"1",1,0,0\n', "binary features"),
    ],
)
def test_malformed_tables_are_refused(folder: Path, text: str, message: str) -> None:
    write_archive(folder, "bangkok", text)
    with pytest.raises(InputError, match=message):
        location30(folder)


def test_only_the_known_member_is_read(folder: Path) -> None:
    write_archive(folder, "../bangkok", GOOD)
    with pytest.raises(InputError, match="holds no file 'bangkok'"):
        location30(folder)


def test_a_link_is_not_followed(folder: Path) -> None:
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        member = tarfile.TarInfo("bangkok")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(member)
    with pytest.raises(InputError, match="is not the published file"):
        location30(folder)


def test_a_huge_member_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location30_module, "_LARGEST_MEMBER", 10)
    with pytest.raises(InputError, match="is not the published file"):
        location30(folder)


def test_a_truncated_archive_names_file_and_sizes(folder: Path) -> None:
    path = folder / ARCHIVE
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(
        InputError, match=rf"{ARCHIVE} is truncated or damaged: it has \d+ bytes, expected 287,293"
    ):
        location30(folder)


def test_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=f"location30: {ARCHIVE} not found"):
        location30(tmp_path)


@pytest.mark.parametrize("published_folder", ["location30"], indirect=True)
def test_published_people(published_folder: Path) -> None:
    records = location30(published_folder)
    assert records.features.shape == (5_010, 446)
    assert records.class_names[records.labels[0]] == "13"
    assert len(np.unique(records.labels)) == 30
