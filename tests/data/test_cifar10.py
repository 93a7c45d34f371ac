from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from leakscope.data import cifar10 as cifar10_module
from leakscope.data.cifar10 import BATCHES, CLASS_NAMES, cifar10
from leakscope.errors import DataMissingError, InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two rows a batch; image i of a batch is i everywhere in red, i + 1 in green, i + 2 in blue."""
    monkeypatch.setattr(cifar10_module, "ROWS_A_BATCH", 2)
    for number, batch in enumerate(BATCHES):
        rows = b"".join(
            bytes([number + row]) + b"".join(bytes([row + plane]) * 1024 for plane in range(3))
            for row in range(2)
        )
        if number % 2:
            (tmp_path / f"{batch}.bin.xz").write_bytes(lzma.compress(rows))
        else:
            (tmp_path / f"{batch}.bin").write_bytes(rows)
    return tmp_path


def test_plain_and_compressed_batches_become_planes(folder: Path) -> None:
    records = cifar10(folder)
    assert records.features.shape == (12, 3, 32, 32) and records.features.dtype == np.uint8
    assert list(records.labels) == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    for plane in range(3):
        assert (records.features[1::2, plane] == plane + 1).all()
    assert list(records.groups["split"]) == ["train"] * 10 + ["test"] * 2
    assert records.class_names == CLASS_NAMES


def test_ids_do_not_depend_on_which_batches_are_read(folder: Path) -> None:
    everything = cifar10(folder)
    part = cifar10(folder, batches=("data_batch_3", "test_batch"))
    np.testing.assert_array_equal(part.ids, everything.ids[[4, 5, 10, 11]])
    np.testing.assert_array_equal(part.features, everything.features[[4, 5, 10, 11]])


def test_names_come_from_the_meta_file(folder: Path) -> None:
    (folder / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n\n")
    assert cifar10(folder).class_names == tuple("abcdefghij")
    (folder / "batches.meta.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match="has 2 class names, expected 10"):
        cifar10(folder)


def test_a_truncated_batch_names_file_and_sizes(folder: Path) -> None:
    path = folder / "data_batch_1.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        InputError, match=r"data_batch_1\.bin is truncated.*it has 6,145 bytes.*expected 6,146"
    ):
        cifar10(folder)


def test_a_truncated_compressed_batch_is_refused(folder: Path) -> None:
    path = folder / "data_batch_2.bin.xz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"data_batch_2\.bin\.xz is truncated or damaged.*expected 6,146"):
        cifar10(folder)


def test_a_label_above_nine_is_refused(folder: Path) -> None:
    path = folder / "data_batch_1.bin"
    path.write_bytes(b"\x0b" + path.read_bytes()[1:])
    with pytest.raises(InputError, match="label 11, expected 0 to 9"):
        cifar10(folder)


def test_missing_batch(folder: Path) -> None:
    (folder / "test_batch.bin.xz").unlink()
    with pytest.raises(DataMissingError, match=r"cifar10: test_batch\.bin not found"):
        cifar10(folder)


@pytest.mark.parametrize("batches", [(), ("data_batch_9",), ("test_batch", "test_batch")])
def test_bad_batches(folder: Path, batches: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="must be one or more of data_batch_1"):
        cifar10(folder, batches)


@pytest.mark.slow
@pytest.mark.parametrize("published_folder", ["cifar10"], indirect=True)
def test_published_test_batch(published_folder: Path) -> None:
    records = cifar10(published_folder, batches=("test_batch",))
    assert records.features.shape == (10_000, 3, 32, 32)
    np.testing.assert_array_equal(np.bincount(records.labels), [1_000] * 10)
    assert records.class_names[records.labels[0]] == "cat"
