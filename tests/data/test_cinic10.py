"""CINIC-10: a made-up publication in folders and as an archive, and what is wrong with damaged ones."""

from __future__ import annotations

import hashlib
import io
import shutil
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


def test_the_archive_gives_the_same_images(root: Path) -> None:
    folder, splits = packed(root) / "CINIC-10", ("valid", "train")
    inside = {place: content.read() for place, content in module.images_in_archive(folder, splits)}
    unpacked = module.images_in_folders(root / "CINIC-10", splits)
    assert inside == {place: path.read_bytes() for place, path in unpacked} and len(inside) == 40


def test_the_archive_must_have_the_published_number_of_images(root: Path) -> None:
    with pytest.raises(
        InputError, match=r"train/airplane has 2, .* and 27 more; every class .* 9,000 images"
    ):
        load("cinic10", packed(root))


@pytest.mark.slow
def test_a_whole_archive_is_read(tmp_path: Path) -> None:
    """A split of the published size: 9,000 copies of one image in every class."""
    (tmp_path / "CINIC-10").mkdir()
    content = io.BytesIO()
    Image.fromarray(np.full((32, 32, 3), 7, dtype=np.uint8)).save(content, "png")
    with tarfile.open(tmp_path / "CINIC-10" / module.ARCHIVE, "w:gz", compresslevel=1) as archive:
        for class_name in CLASS_NAMES:
            for i in range(9_000):
                member = tarfile.TarInfo(f"test/{class_name}/cifar10-test-{i}.png")
                member.size = len(content.getvalue())
                archive.addfile(member, io.BytesIO(content.getvalue()))
    found = load("cinic10", tmp_path, splits=("test",))
    assert np.bincount(found.labels).tolist() == [9_000] * 10
    assert len(set(found.ids.tolist())) == 90_000 and (found.features == 7).all()


def test_folders_with_fewer_images_are_read_with_one_warning(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(load("cinic10", root)) == 60
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{root / 'CINIC-10'} is not the published CINIC-10: it has 60 images (train/airplane has 2, "
        "train/automobile has 2, train/bird has 2 and 27 more); published are 9,000 of every class in train, "
        "valid, test"
    )


def test_some_splits_and_classes_are_enough(root: Path) -> None:
    shutil.rmtree(root / "CINIC-10" / "valid")
    shutil.rmtree(root / "CINIC-10" / "test" / "cat")
    found = load("cinic10", root)
    assert found.groups["split"].tolist() == ["train"] * 20 + ["test"] * 18
    assert found.class_names == CLASS_NAMES and 3 not in found.labels[20:]
    with pytest.raises(
        InputError, match=r"no images \(\*\.png\) in valid/CLASS, where CLASS is one of airplane"
    ):
        load("cinic10", root, splits=("valid", "test"))


def test_folders_without_images_say_where_these_belong(tmp_path: Path) -> None:
    (tmp_path / "CINIC-10" / "train").mkdir(parents=True)
    with pytest.raises(InputError, match=r"no images .* in train/CLASS, valid/CLASS, test/CLASS"):
        load("cinic10", tmp_path)


@pytest.mark.parametrize("name", ["cinic-10", "Cinic-10"])
def test_the_folder_is_found_whatever_its_case(root: Path, name: str) -> None:
    (root / "CINIC-10").rename(root / name)
    assert len(load("cinic10", root)) == 60 and dataset("cinic10").is_present(root)
    (root / "CINIC-10" / "train").mkdir(parents=True)  # the exact name comes first
    with pytest.raises(InputError, match="no images"):
        load("cinic10", root)


def test_the_archive_is_read_where_the_folders_are_not_whole(root: Path) -> None:
    there = packed(root)
    shutil.copytree(root / "CINIC-10", there / "CINIC-10", dirs_exist_ok=True)
    with pytest.raises(InputError, match=r"CINIC-10\.tar\.gz: train/airplane has 2"):
        load("cinic10", there)


def test_a_split_has_the_same_ids_whichever_are_read(root: Path) -> None:
    both = load("cinic10", root, splits=("test", "train"))
    assert both.groups["split"].tolist() == ["test"] * 20 + ["train"] * 20
    assert load("cinic10", root, splits=("test",)).ids.tolist() == both.ids[:20].tolist()
    with pytest.raises(
        InputError, match=r"splits=\['test', 'dev'\] must be one or more of train, valid, test"
    ):
        load("cinic10", root, splits=("test", "dev"))


def test_a_missing_image_is_counted(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "CINIC-10" / "train" / "airplane" / NAMES[0]).unlink()
    assert len(load("cinic10", root)) == 59
    assert "it has 59 images (train/airplane has 1, " in caplog.text


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
    assert sum(1 for _ in module.images_in_archive(there / "CINIC-10", module.SPLITS)) == 60


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


def test_folders_stand_for_the_archive_only_with_every_image(root: Path) -> None:
    entry = replace(dataset("cinic10"), files_per_class=len(NAMES))
    assert entry.is_present(root) and not entry.present_files(root)
    (fetched,) = fetch(entry, root)
    assert not fetched.downloaded and check_file(entry, entry.files[0], root).state == "unpacked"
    (root / "CINIC-10" / "test" / "dog" / NAMES[0]).unlink()
    assert check_file(entry, entry.files[0], root).state == "partial"
    shutil.rmtree(root / "CINIC-10" / "test")
    assert check_file(entry, entry.files[0], root).state == "partial"
    with pytest.raises(DataMissingError, match="cannot download"):
        fetch(replace(entry, mirrors=("http://127.0.0.1:9/",)), root)


def test_checking_folders_with_fewer_images_is_one_line(root: Path) -> None:
    shown = run_command("data", "check", "cinic10", "--data-dir", root)
    assert shown.exit_code == 2 and "partial" in shown.out
    assert "CINIC-10 does not have the published number of files per class; run `leakscope data" in shown.err
