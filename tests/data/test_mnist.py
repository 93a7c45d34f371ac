from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from leakscope.data import mnist as mnist_module
from leakscope.data.mnist import fashion_mnist, mnist
from leakscope.errors import DataMissingError, InputError


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mnist_module, "SPLIT_SIZES", {"train": 3, "test": 2})
    random = np.random.default_rng(0)
    for prefix, labels in (("train", [5, 0, 4]), ("t10k", [7, 2])):
        images = random.integers(0, 256, size=(len(labels), 28, 28))
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte.gz", np.array(labels))
    return tmp_path


def test_train_comes_before_test(folder: Path) -> None:
    records = mnist(folder)
    assert records.features.shape == (5, 1, 28, 28) and records.features.dtype == np.uint8
    assert list(records.labels) == [5, 0, 4, 7, 2]
    assert list(records.groups["split"]) == ["train", "train", "train", "test", "test"]
    assert list(records.ids[[0, 3]]) == ["mnist-train-00000", "mnist-test-00000"]
    first = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28))
    np.testing.assert_array_equal(records.features[:3, 0], first)


def test_fashion_has_its_own_names(folder: Path) -> None:
    records = fashion_mnist(folder)
    assert records.name == "fashion-mnist"
    assert records.class_names[9] == "Ankle boot"


def test_a_truncated_archive_names_file_and_sizes(folder: Path) -> None:
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=rf"{path.name} is truncated.*it has [\d,]+ bytes.*expected 2,368"):
        mnist(folder)


def test_too_few_and_too_many_images_are_refused(folder: Path) -> None:
    for n_images, found in ((1, "it has 800 bytes"), (4, "it has more than 1,584 bytes")):
        write_idx(folder / "t10k-images-idx3-ubyte.gz", np.zeros((n_images, 28, 28)))
        with pytest.raises(InputError, match=f"{found}.*expected 1,584"):
            mnist(folder)


def test_a_wrong_header_is_refused(folder: Path) -> None:
    write_idx(folder / "t10k-images-idx3-ubyte.gz", np.zeros((2, 14, 56)))
    with pytest.raises(InputError, match=r"header \[2051, 2, 14, 56\], expected \[2051, 2, 28, 28\]"):
        mnist(folder)


def test_a_file_that_is_no_gzip_is_refused(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(
        InputError, match=r"t10k-labels-idx1-ubyte\.gz is truncated or damaged: it has 0 bytes"
    ):
        mnist(folder)


def test_a_label_above_nine_is_refused(folder: Path) -> None:
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", np.array([1, 10]))
    with pytest.raises(InputError, match="label 10, expected 0 to 9"):
        mnist(folder)


def test_missing_file(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataMissingError, match=r"mnist: t10k-labels-idx1-ubyte\.gz not found"):
        mnist(folder)


@pytest.mark.parametrize("published_folder", ["mnist"], indirect=True)
def test_published_digits(published_folder: Path) -> None:
    records = mnist(published_folder)
    assert list(records.labels[:5]) == [5, 0, 4, 1, 9]
    assert np.bincount(records.labels[:60_000])[0] == 5_923
