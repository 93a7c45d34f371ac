"""Reads a folder of images, one folder per class: FOLDER/CLASS/NAME.png, .jpg or .jpeg.

Headers are read first: every picture must have one and the same size, and no size that is merely declared is
believed. Only then are they decoded, one at a time, into the one array that is kept, so that memory is that
array and one picture. Pillow decodes, as PNG or JPEG whatever the name says, and nothing else: some of its
other readers start programs.
"""

from __future__ import annotations

import logging
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.disk.scratch import machine_memory
from leakscope.errors import InputError, first_line
from leakscope.types import Records

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

_log = logging.getLogger(__name__)

SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")
_MOST_PIXELS = 1 << 24  # of one picture: 4096 x 4096
_GREY, _COLOUR = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, AttributeError,
               OverflowError, MemoryError, RuntimeError, struct.error, zlib.error)  # fmt: skip


class _Picture(NamedTuple):
    """A file or its content, its id and its class."""

    path: Path | IO[bytes]
    id: str
    class_name: str


class _Form(NamedTuple):
    """What all pictures have in common."""

    width: int
    height: int
    n_channels: int


def read_image_folder(folder: Path) -> Records:
    """The records of a folder of pictures.

    Classes are the folders that have pictures, in the order of their names; an id is the path within the
    folder, "cat/001.png". Features are uint8 (records, channels, height, width): one channel where all
    pictures are grey, else red, green and blue, without transparency. Pixels are as stored: a camera's note
    to turn the picture is not followed. Other files, and links that lead out of the folder, are left out,
    and how many is logged as a warning.

    Raises:
        InputError: no images, one that is damaged, too large or of another size; names its path.
    """
    pictures = _pictures_in(folder)
    form = _common_form(pictures)
    features = np.empty((len(pictures), form.n_channels, form.height, form.width), dtype=np.uint8)
    for pixels, picture in zip(features, pictures, strict=True):
        pixels[...] = _decoded(picture, form)
    class_names = tuple(sorted({picture.class_name for picture in pictures}))
    number = {name: index for index, name in enumerate(class_names)}
    return Records(
        features=features,
        labels=np.array([number[picture.class_name] for picture in pictures], dtype=np.int64),
        ids=np.array([picture.id for picture in pictures], dtype=np.str_),
        name=folder.resolve().name,
        class_names=class_names,
    )


def decoded_color(source: Path | IO[bytes], name: str, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """One picture that must have a size (height, width), as red, green and blue; uint8 (3, height, width).

    Raises:
        InputError: it is damaged or has another size; names it.
    """
    with _opened(_Picture(source, name, "")) as image:
        if image.size != size[::-1]:
            raise InputError(
                f"{name} is {image.size[0]} x {image.size[1]} pixels, expected {size[1]} x {size[0]}"
            )
        _check_header(image, name)
        return np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)


def is_picture_folder(folder: Path) -> bool:
    """True when a folder of it has a picture."""
    inner = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return any(file.suffix.lower() in SUFFIXES for path in inner for file in path.iterdir())


def _pictures_in(folder: Path) -> list[_Picture]:
    """The images of a folder, in the order of their ids."""
    root, pictures, n_skipped = folder.resolve(), list[_Picture](), 0
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_dir() or not _is_within(path, root):
            n_skipped += 1
            continue
        files = sorted(path.iterdir())
        readable = [_Picture(file, _id(file, folder), path.name) for file in files if _is_picture(file, root)]
        n_skipped += len(files) - len(readable)
        pictures += readable
    if not pictures:
        raise InputError(
            f"has no images ({', '.join(SUFFIXES)}) in folders named after their classes, and no arrays "
            "(features.npy, labels.npy); give one or the other (documents are read by leakscope.read_text)"
        )
    if n_skipped:
        entries = "1 entry" if n_skipped == 1 else f"{n_skipped:,} entries"
        _log.warning("%s: skipped %s: not an image of a class, or a link out of it", folder, entries)
    return pictures


def _is_picture(path: Path, root: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file() and _is_within(path, root)


def _is_within(path: Path, root: Path) -> bool:
    return not path.is_symlink() or path.resolve().is_relative_to(root)


def _id(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    if not name.isprintable():
        raise InputError(f"{name!r} has a name that cannot be written down as an id; rename the file")
    return name


def _common_form(pictures: list[_Picture]) -> _Form:
    """From the headers alone; raises for the first picture that differs."""
    first_size, is_grey = None, True
    for picture in pictures:
        with _opened(picture) as image:
            _check_header(image, picture.id)
            first_size = first_size or image.size
            is_grey = is_grey and image.mode in _GREY
            if image.size != first_size:
                raise InputError(
                    f"{picture.id} is {image.size[0]} x {image.size[1]} pixels, {pictures[0].id} is "
                    f"{first_size[0]} x {first_size[1]}; bring all to one size first"
                )
    assert first_size is not None, "there is at least one picture"
    form = _Form(*first_size, n_channels=1 if is_grey else 3)
    _refuse_absurd(form, len(pictures))
    return form


def _check_header(image: ImageFile, name: str) -> None:
    width, height = image.size
    if width * height > _MOST_PIXELS or not width * height:
        raise InputError(
            f"{name} declares {width:,} x {height:,} pixels, at most {_MOST_PIXELS:,} are read; "
            "make it smaller"
        )
    is_deep = any(";16" in str(tile) for tile in image.tile)  # of colours Pillow would drop the lower 8 bits
    if is_deep or image.mode not in _GREY + _COLOUR:
        kind = f"{image.mode}, 16 bits" if is_deep else image.mode
        raise InputError(f"{name} has pixels of kind {kind}, expected 8 bits per channel; convert it")


def _refuse_absurd(form: _Form, n_pictures: int) -> None:
    n_bytes, memory = n_pictures * form.width * form.height * form.n_channels, machine_memory()
    if n_bytes > memory:
        raise InputError(
            f"{n_pictures:,} images take {n_bytes / 2**30:,.0f} GiB, this machine has "
            f"{memory / 2**30:,.0f}; give fewer or smaller ones"
        )


def _decoded(picture: _Picture, form: _Form) -> npt.NDArray[np.uint8]:
    """uint8 (channels, height, width)."""
    with _opened(picture) as image:
        if image.size != (form.width, form.height):
            raise InputError(f"{picture.id} was changed while it was being read; run the same command again")
        pixels = np.asarray(image.convert("L" if form.n_channels == 1 else "RGB"), dtype=np.uint8)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


@contextmanager
def _opened(picture: _Picture) -> Iterator[ImageFile]:
    """The picture, of which only the header has been read; what goes wrong is one line that names it."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow: sizes are looked at here, transparency is dropped
            with Image.open(picture.path, formats=_FORMATS) as image:
                yield image
    except InputError:
        raise
    except UnidentifiedImageError as error:
        raise InputError(f"{picture.id} is not a PNG or JPEG, or its header is damaged; remove it") from error
    except (*_UNREADABLE, Image.DecompressionBombError) as error:
        raise InputError(
            f"{picture.id} cannot be decoded ({first_line(error)}); repair or remove it"
        ) from error
