"""CINIC-10 (Darlow, Crowley, Antoniou and Storkey 2018): 270,000 color images of 32 x 32 pixels.

The publication is one archive with folders train, valid and test; each has one folder per class with 9,000
PNG files. A file is named after its origin: `cifar10-train-123.png`, or an ImageNet name like
`n02691156_10142.png`. The images are read from these folders where they are unpacked, and otherwise from the
archive itself.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from leakscope.data.cifar10 import CLASS_NAMES, IMAGE_SHAPE
from leakscope.data.image_folder import decoded_color
from leakscope.data.published import DAMAGE, require
from leakscope.errors import InputError
from leakscope.types import Records

ARCHIVE = "CINIC-10.tar.gz"
SPLITS = ("train", "valid", "test")
PER_CLASS = 9_000
"""Images of a class in a split."""


class Place(NamedTuple):
    """Where an image lies in the publication."""

    split: str
    class_name: str
    name: str

    @property
    def id(self) -> str:
        """The path within the publication."""
        return "/".join(self)


def cinic10(folder: Path, splits: Sequence[str] = SPLITS) -> Records:
    """The images as uint8 (records, 3, 32, 32), by split, class and file name; groups split and origin.

    Args:
        folder: where the folders train, valid and test lie, or the archive.
        splits: the splits to read, in this order; a record has the same id whichever are chosen.

    Raises:
        DataMissingError: neither the folders nor the archive are there.
        InputError: an image is damaged, or a class does not have 9,000 images.
    """
    if set(splits) - set(SPLITS) or not splits or len(set(splits)) != len(splits):
        raise InputError(f"splits={list(splits)} must be one or more of {', '.join(SPLITS)}, each once")
    source = _from_folders if is_unpacked(folder) else _from_archive
    # Names first, so that images are decoded into their place in one array; an archive is read twice.
    places = sorted(
        (place for place, _ in source(folder, splits)), key=lambda at: (splits.index(at.split), at)
    )
    _check_counts(folder, splits, places)
    row = {place: i for i, place in enumerate(places)}
    features = np.empty((len(places), *IMAGE_SHAPE), dtype=np.uint8)
    for place, content in source(folder, splits):
        features[row[place]] = decoded_color(content, f"{folder}: {place.id}", IMAGE_SHAPE[1:])
    return Records(
        features=features,
        labels=np.array([CLASS_NAMES.index(place.class_name) for place in places], dtype=np.int64),
        ids=np.array([place.id for place in places], dtype=np.str_),
        name="cinic10",
        groups={
            "split": np.array([place.split for place in places]),
            "origin": np.array([_origin(place.name) for place in places]),
        },
        class_names=CLASS_NAMES,
    )


def is_unpacked(folder: Path) -> bool:
    """Whether the folders of all splits are there."""
    return all((folder / split).is_dir() for split in SPLITS)


def _from_folders(folder: Path, splits: Sequence[str]) -> Iterator[tuple[Place, Path]]:
    for split in splits:
        for class_name in CLASS_NAMES:
            of_class = folder / split / class_name
            for path in of_class.glob("*.png") if of_class.is_dir() else ():
                yield Place(split, class_name, path.name), path


def _from_archive(folder: Path, splits: Sequence[str]) -> Iterator[tuple[Place, IO[bytes]]]:
    """Members of the archive with their content, which is readable until the next one."""
    (path,) = require("cinic10", folder, [ARCHIVE])
    try:
        # tarfile's own "r|gz" takes a file that was cut off for one that ends there
        with gzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                place = _place(member, splits)
                stream = archive.extractfile(member) if place else None
                if place and stream:
                    yield place, io.BytesIO(stream.read())
    except (tarfile.TarError, *DAMAGE) as error:
        raise InputError(f"{path} is damaged ({error}); delete it and fetch it again") from error


def _place(member: tarfile.TarInfo, splits: Sequence[str]) -> Place | None:
    """The place of a member that is an image of the chosen splits."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if len(parts) < 3 or not member.isreg():
        return None
    split, class_name, name = parts[-3:]
    is_image = split in splits and class_name in CLASS_NAMES and name.endswith(".png")
    return Place(split, class_name, name) if is_image else None


def _check_counts(folder: Path, splits: Sequence[str], places: Sequence[Place]) -> None:
    counts = {(split, class_name): 0 for split in splits for class_name in CLASS_NAMES}
    for place in places:
        counts[place.split, place.class_name] += 1
    wrong = [f"{split}/{name} has {n:,}" for (split, name), n in counts.items() if n != PER_CLASS]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise InputError(
            f"{folder}: {', '.join(wrong[:3])}{more}; every class of a split has {PER_CLASS:,} images. "
            "Delete the folders, or the archive, and run `leakscope data fetch cinic10`"
        )


def _origin(name: str) -> str:
    return "cifar10" if name.startswith("cifar10-") else "imagenet"
