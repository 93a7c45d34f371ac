from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import pytest

from leakscope.data.catalogue import DATASETS, Dataset, PublishedFile
from leakscope.data.fetch import check_file
from tests.published_data import data_root

CONTENT = b"published"


def toy(required: bool = True) -> tuple[Dataset, PublishedFile]:
    file = PublishedFile("a.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), required)
    return Dataset("toy", "", "", 1, (1,), 2, "", "", folder="toy", files=(file,)), file


@pytest.mark.parametrize(
    ("name", "content", "state"),
    [
        ("a.bin", CONTENT, "ok"),
        ("a.bin.xz", lzma.compress(CONTENT), "ok"),
        ("a.bin", b"other", "differs"),
        ("a.bin.xz", lzma.compress(CONTENT)[:-9], "differs"),
        ("b.bin", CONTENT, "missing"),
    ],
)
def test_states(tmp_path: Path, name: str, content: bytes, state: str) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / name).write_bytes(content)
    check = check_file(*toy(), tmp_path)
    assert check.state == state
    assert check.is_fault == (state != "ok")


def test_a_missing_optional_file_is_no_fault(tmp_path: Path) -> None:
    assert not check_file(*toy(required=False), tmp_path).is_fault


@pytest.mark.slow
@pytest.mark.parametrize("entry", [entry for entry in DATASETS if entry.files], ids=lambda entry: entry.name)
def test_published_files_have_the_registered_checksums(entry: Dataset) -> None:
    root = data_root()
    files = [file for file in entry.files if not file.name.startswith("data_batch")]  # one batch is enough
    checks = [check_file(entry, file, root) for file in files]
    if all(check.state == "missing" for check in checks):
        pytest.skip(f"{entry.name} is not in {root}")
    assert {check.file.name: check.state for check in checks if check.state != "ok"} == {}
