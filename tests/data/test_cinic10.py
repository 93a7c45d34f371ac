"""CINIC-10: a made-up publication in folders and as an archive, and what is wrong with damaged ones."""

from __future__ import annotations

import hashlib
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leakscope.data import cinic10 as module
from leakscope.data.cifar10 import CLASS_NAMES
from leakscope.data.fetch import check_file, fetch
from leakscope.data.registry import dataset, load
from leakscope.errors import DataMissingError, InputError
from tests.cli.command import run_command

NAMES = ("n02691156_10.png", "cifar10-train-7.png")


@pytest.fixture(autouse=True)
def two_images_per_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PER_CLASS", len(NAMES))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder with the publication unpacked: every image has one color, different from all others."""
    shade = 0
    for split in module.SPLITS:
        for class_name in CLASS_NAMES:
            folder = tmp_path / "CINIC-10" / split / class_name
            folder.mkdir(parents=True)
            for name in NAMES:
                Image.fromarray(np.full((32, 32, 3), (shade, 1, 2), dtype=np.uint8)).save(folder / name)
                shade += 1
    return tmp_path


def packed(root: Path) -> Path:
    """The same publication as one archive, without the folders."""
    folder = root / "packed" / "CINIC-10"
    folder.mkdir(parents=True)
    with tarfile.open(folder / module.ARCHIVE, "w:gz") as archive:
        for split in reversed(module.SPLITS):
            archive.add(root / "CINIC-10" / split, f"./{split}")
    return root / "packed"


def test_images_come_by_split_class_and_name(root: Path) -> None:
    found = load("cinic10", root)
    assert found.features.shape == (60, 3, 32, 32) and found.features.dtype == np.uint8
    assert found.ids[:3].tolist() == [
        "train/airplane/cifar10-train-7.png", "train/airplane/n02691156_10.png",
        "train/automobile/cifar10-train-7.png",
    ]  # fmt: skip
    assert found.labels[:4].tolist() == [0, 0, 1, 1] and found.class_names == CLASS_NAMES
    assert found.groups["split"].tolist() == ["train"] * 20 + ["valid"] * 20 + ["test"] * 20
    assert found.groups["origin"][:2].tolist() == ["cifar10", "imagenet"]
    assert found.features[:2, 0, 0, 0].tolist() == [1, 0]  # red: in the order the images were made
    assert (found.features[:, 1] == 1).all() and (found.features[:, 2] == 2).all()


def test_the_archive_gives_the_same_records(root: Path) -> None:
    folders, archive = load("cinic10", root), load("cinic10", packed(root))
    np.testing.assert_array_equal(folders.features, archive.features)
    np.testing.assert_array_equal(folders.ids, archive.ids)


def test_a_split_has_the_same_ids_whichever_are_read(root: Path) -> None:
    both = load("cinic10", root, splits=("test", "train"))
    assert both.groups["split"].tolist() == ["test"] * 20 + ["train"] * 20
    assert load("cinic10", root, splits=("test",)).ids.tolist() == both.ids[:20].tolist()
    with pytest.raises(
        InputError, match=r"splits=\['test', 'dev'\] must be one or more of train, valid, test"
    ):
        load("cinic10", root, splits=("test", "dev"))


def test_a_missing_image_is_counted(root: Path) -> None:
    (root / "CINIC-10" / "valid" / "dog" / NAMES[0]).unlink()
    with pytest.raises(InputError, match="valid/dog has 1; every class of a split has 2 images"):
        load("cinic10", root)


def test_damage_names_the_image(root: Path) -> None:
    path = root / "CINIC-10" / "test" / "ship" / NAMES[1]
    content = path.read_bytes()
    path.write_bytes(content[:60])
    with pytest.raises(InputError, match=f"test/ship/{NAMES[1]} cannot be decoded|damaged"):
        load("cinic10", root)
    Image.fromarray(np.zeros((16, 32, 3), dtype=np.uint8)).save(path)
    with pytest.raises(InputError, match=r"is 32 x 16 pixels, expected 32 x 32"):
        load("cinic10", root)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_damaged_archive_is_one_line(root: Path, share: float) -> None:
    there = packed(root)
    path = there / "CINIC-10" / module.ARCHIVE
    whole = path.read_bytes()
    path.write_bytes(whole[: round(share * len(whole))])
    with pytest.raises(InputError, match=r"is damaged .*; delete it and fetch it again"):
        load("cinic10", there)


def test_an_archive_cannot_write_or_link_anywhere(root: Path) -> None:
    """Members are only ever read; a link is no image."""
    there = packed(root)
    with tarfile.open(there / "CINIC-10" / module.ARCHIVE, "w:gz") as archive:
        for split in module.SPLITS:
            archive.add(root / "CINIC-10" / split, split)
        link = tarfile.TarInfo("train/cat/n1_1.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    assert len(load("cinic10", there)) == 60


def test_nothing_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=r"CINIC-10\.tar\.gz not found .*leakscope data fetch cinic10"):
        load("cinic10", tmp_path)


def test_without_network_fetching_fails_in_one_line(tmp_path: Path) -> None:
    entry = replace(dataset("cinic10"), mirrors=("http://127.0.0.1:9/",))
    with pytest.raises(
        DataMissingError, match=r"cannot download CINIC-10\.tar\.gz .*by other means"
    ) as caught:
        fetch(entry, tmp_path)
    assert "\n" not in str(caught.value) and not (tmp_path / "CINIC-10").exists()


def test_the_archive_is_checked_by_its_md5(root: Path) -> None:
    there = packed(root)
    path, (file,) = there / "CINIC-10" / module.ARCHIVE, dataset("cinic10").files
    assert file.algorithm == "md5"
    assert check_file(dataset("cinic10"), file, there).state == "differs"
    known = replace(file, checksum=hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())
    assert check_file(dataset("cinic10"), known, there).state == "ok"


def test_unpacked_folders_stand_for_the_archive(root: Path) -> None:
    entry = dataset("cinic10")
    assert entry.is_present(root) and not entry.present_files(root)
    (fetched,) = fetch(entry, root)
    assert not fetched.downloaded
    shown = run_command("data", "check", "cinic10", "--data-dir", root)
    assert shown.exit_code == 0 and "unpacked" in shown.out
    assert "cinic10" in run_command("data", "check", "--data-dir", root).out.split("not in")[0]
