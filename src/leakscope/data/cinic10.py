"""CINIC-10 (Darlow, Crowley, Antoniou and Storkey 2018): 270,000 color images of 32 x 32 pixels.

The publication is one archive with folders train, valid and test; each has one folder per class with 9,000
PNG files. A file is named after its origin: `cifar10-train-123.png`, or an ImageNet name like
`n02691156_10142.png`. The images are read from these folders where they are unpacked, and otherwise from the
archive itself.
"""

from __future__ import annotations

import gzip
import io
import logging
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from leakscope.data.cifar10 import CLASS_NAMES, IMAGE_SHAPE
from leakscope.data.image_folder import decoded_color
from leakscope.data.published import DAMAGE, locate, require
from leakscope.data.registry import dataset
from leakscope.errors import InputError
from leakscope.types import Records

ARCHIVE = "CINIC-10.tar.gz"
SPLITS = ("train", "valid", "test")
_PER_CLASS = dataset("cinic10").files_per_class
_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where an image lies in the publication."""

    split: str
    class_name: str
    name: str

    @property
    def id(self) -> str:
        """The path within the publication."""
        return "/".join(self)


_Images = Callable[[Path, Sequence[str]], Iterator[tuple[Place, Path | IO[bytes]]]]


def cinic10(folder: Path, splits: Sequence[str] | None = None) -> Records:
    """The images as uint8 (records, 3, 32, 32), by split, class and file name; groups split and origin.

    Folders with another number of images than published are read, too, and a warning gives the counts. Where
    the archive lies beside them, it is read in their place.

    Args:
        folder: where the folders train, valid and test lie, or the archive.
        splits: the splits to read, in this order (default: all that are there); a record has the same id
            whichever are chosen.

    Raises:
        DataMissingError: neither folders nor archive are there.
        InputError: an image is damaged, there is none of a chosen split, or the archive does not have 9,000
            images of every class in a split.
    """
    order = tuple(SPLITS if splits is None else splits)
    if set(order) - set(SPLITS) or not order or len(set(order)) != len(order):
        raise InputError(f"splits={list(order)} must be one or more of {', '.join(SPLITS)}, each once")
    images, places = _chosen(folder, order, is_default=splits is None)
    # Names came first, so that images are decoded into their place in one array; an archive is read twice.
    places = sorted(places, key=lambda at: (order.index(at.split), at))
    row = {place: i for i, place in enumerate(places)}
    features = np.empty((len(places), *IMAGE_SHAPE), dtype=np.uint8)
    for place, content in images(folder, order):
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


def images_in_folders(folder: Path, splits: Sequence[str]) -> Iterator[tuple[Place, Path]]:
    """Images of the unpacked folders."""
    for split in splits:
        for class_name in CLASS_NAMES:
            of_class = folder / split / class_name
            for path in of_class.glob("*.png") if of_class.is_dir() else ():
                yield Place(split, class_name, path.name), path


def images_in_archive(folder: Path, splits: Sequence[str]) -> Iterator[tuple[Place, IO[bytes]]]:
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


def _chosen(folder: Path, splits: Sequence[str], is_default: bool) -> tuple[_Images, list[Place]]:
    """Where to read from, and what is there: whole folders, else the archive, else folders as they are."""
    in_folders = [place for place, _ in images_in_folders(folder, splits)]
    wrong = _not_as_published(in_folders, splits)
    if not wrong:
        return images_in_folders, in_folders
    if locate(folder, ARCHIVE) is not None or not any((folder / split).is_dir() for split in SPLITS):
        return images_in_archive, _of_archive(folder, splits)
    there = {place.split for place in in_folders}
    absent = [split for split in splits if split not in there]
    if absent and not (is_default and there):
        raise InputError(
            f"{folder}: no images (*.png) in {', '.join(f'{split}/CLASS' for split in absent)}, where CLASS "
            f"is one of {', '.join(CLASS_NAMES)}; put them there, or run `leakscope data fetch cinic10`"
        )
    _log.warning(
        "%s is not the published CINIC-10: it has %s images (%s); published are %s of every class in %s",
        folder, f"{len(in_folders):,}", wrong, f"{_PER_CLASS:,}", ", ".join(splits),
    )  # fmt: skip
    return images_in_folders, in_folders


def _of_archive(folder: Path, splits: Sequence[str]) -> list[Place]:
    """What the archive holds, which must be what was published."""
    places = [place for place, _ in images_in_archive(folder, splits)]
    wrong = _not_as_published(places, splits)
    if wrong:
        raise InputError(
            f"{folder / ARCHIVE}: {wrong}; every class of a split has {_PER_CLASS:,} images. Delete the "
            "archive and run `leakscope data fetch cinic10`"
        )
    return places


def _not_as_published(places: Sequence[Place], splits: Sequence[str]) -> str:
    """The first classes that do not have the published number of images; "" if all have it."""
    counts = {(split, class_name): 0 for split in splits for class_name in CLASS_NAMES}
    for place in places:
        counts[place.split, place.class_name] += 1
    wrong = [f"{split}/{name} has {n:,}" for (split, name), n in counts.items() if n != _PER_CLASS]
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return f"{', '.join(wrong[:3])}{more}"


def _origin(name: str) -> str:
    return "cifar10" if name.startswith("cifar10-") else "imagenet"
