"""Folders of pictures: what is read and in which order, and what is refused before it is decoded."""

from __future__ import annotations

import io
import logging
import os
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from leakscope.array_types import AnyArray
from leakscope.data import image_folder
from leakscope.data.files import read_table
from leakscope.errors import InputError

RNG = np.random.default_rng(4)


def pixels(mode: str = "RGB", width: int = 6, height: int = 4) -> AnyArray:
    shape = (height, width) if mode == "L" else (height, width, len(mode))
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def picture(path: Path, content: AnyArray | None = None) -> AnyArray:
    content = pixels() if content is None else content
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(content).save(path)
    return content


def two_classes(root: Path) -> Path:
    for name in ("cat/b.png", "cat/a.png", "dog/a.PNG"):
        picture(root / "pets" / name)
    return root / "pets"


def test_folders_are_classes_and_paths_are_ids(tmp_path: Path) -> None:
    folder = tmp_path / "pets"
    content = {name: picture(folder / name) for name in ("dog/1.png", "cat/10.png", "cat/2.png")}
    found = read_table(folder)
    assert found.name == "pets"
    assert found.ids.tolist() == ["cat/10.png", "cat/2.png", "dog/1.png"]
    assert found.class_names == ("cat", "dog")
    assert found.labels.tolist() == [0, 0, 1]
    assert found.features.shape == (3, 3, 4, 6)
    for row, name in zip(found.features, found.ids, strict=True):
        np.testing.assert_array_equal(row, content[name].transpose(2, 0, 1))


def test_the_order_of_the_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, listed = read_table(two_classes(tmp_path)), Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: reversed(list(listed(path))))
    assert read_table(tmp_path / "pets").digest == first.digest


def test_grey_pictures_have_one_channel_unless_one_has_colours(tmp_path: Path) -> None:
    grey = [picture(tmp_path / "pets" / name, pixels("L")) for name in ("cat/a.png", "dog/a.png")]
    found = read_table(tmp_path / "pets").features
    np.testing.assert_array_equal(found[:, 0], grey)
    picture(tmp_path / "pets/dog/b.png", pixels("RGBA"))
    found = read_table(tmp_path / "pets").features
    assert found.shape == (3, 3, 4, 6)
    np.testing.assert_array_equal(found[0], np.stack([grey[0]] * 3))


def test_jpeg_and_palettes_are_read(tmp_path: Path) -> None:
    flat = np.full((4, 6, 3), 100, np.uint8)
    for name in ("cat/a.jpg", "dog/a.JPEG"):
        picture(tmp_path / "pets" / name, flat)
    few = Image.fromarray(flat).convert("P")
    few.info["transparency"] = b"\x00\x01"  # which Pillow warns about
    few.save(tmp_path / "pets/dog/b.png")
    np.testing.assert_allclose(read_table(tmp_path / "pets").features, 100, atol=3)


def test_what_is_no_picture_is_left_out_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = two_classes(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert len(read_table(folder)) == 3
    assert caplog.messages == []
    (folder / "README.txt").write_text("pets")
    (folder / "cat/notes.txt").write_text("a cat")
    (folder / "cat/inner.png").mkdir()
    picture(folder / ".hidden/a.png")
    os.mkfifo(folder / "cat/pipe.png")  # to open it would be to wait
    with caplog.at_level(logging.WARNING):
        assert len(read_table(folder)) == 3
    assert caplog.messages == [f"{folder}: skipped 5 entries: not an image of a class, or a link out of it"]


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = two_classes(tmp_path)
    picture(tmp_path / "private/secret/a.png")
    (folder / "cat/link.png").symlink_to(tmp_path / "private/secret/a.png")
    (folder / "secret").symlink_to(tmp_path / "private/secret")
    (folder / "cat/loop.png").symlink_to(folder / "cat/loop.png")
    (folder / "dog/same.png").symlink_to(folder / "cat/a.png")
    assert read_table(folder).ids.tolist() == ["cat/a.png", "cat/b.png", "dog/a.PNG", "dog/same.png"]
    assert "skipped 3 entries" in caplog.text


def png_header(width: int, height: int, n_bits: int = 8, content: bytes = b"") -> bytes:
    """A PNG file that declares a size and need not hold anything of it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, n_bits, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(content)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(("width", "height"), [(5000, 5000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_a_declared_size_is_refused_before_anything_is_decoded(
    tmp_path: Path, width: int, height: int
) -> None:
    (two_classes(tmp_path) / "cat/bomb.png").write_bytes(png_header(width, height))
    with pytest.raises(InputError, match=r"pets: cat/bomb\.png ") as error:
        read_table(tmp_path / "pets")
    assert "pixels" in str(error.value)


def test_more_than_the_machine_holds_is_refused_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cat/a.png", "dog/a.png"):
        (tmp_path / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / name).write_bytes(png_header(4000, 4000))
    monkeypatch.setattr(image_folder, "machine_memory", lambda: 90_000_000)
    with pytest.raises(InputError, match="2 images take"):
        read_table(tmp_path / "pets")


def test_another_size_is_named_with_both(tmp_path: Path) -> None:
    picture(two_classes(tmp_path) / "dog/c.png", pixels(width=7))
    with pytest.raises(
        InputError, match=r"dog/c\.png is 7 x 4 pixels, cat/a\.png is 6 x 4; bring all to one"
    ):
        read_table(tmp_path / "pets")


def test_sixteen_bits_are_refused_since_they_would_be_cut_off(tmp_path: Path) -> None:
    deep = RNG.integers(0, 2**16, (4, 6), dtype=np.uint16)
    picture(two_classes(tmp_path) / "dog/deep.png", deep)
    with pytest.raises(InputError, match=r"dog/deep\.png has pixels of kind I;16, 16 bits, expected 8 bits"):
        read_table(tmp_path / "pets")
    rows = (b"\x00" + bytes(range(36))) * 4  # 6 pixels of 3 channels of 2 bytes
    (tmp_path / "pets/dog/deep.png").write_bytes(png_header(6, 4, n_bits=16, content=rows))
    with pytest.raises(InputError, match=r"dog/deep\.png has pixels of kind RGB, 16 bits"):
        read_table(tmp_path / "pets")


@pytest.mark.parametrize("content", [b"", b"GIF89a nothing", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_what_is_no_picture_under_a_pictures_name_is_one_line(tmp_path: Path, content: bytes) -> None:
    (two_classes(tmp_path) / "cat/odd.png").write_bytes(content)
    with pytest.raises(InputError, match=r"pets: cat/odd\.png is not a PNG or JPEG"):
        read_table(tmp_path / "pets")


def test_a_file_cut_off_is_one_line_with_its_path(tmp_path: Path) -> None:
    folder = two_classes(tmp_path)
    content = (folder / "cat/b.png").read_bytes()
    (folder / "cat/b.png").write_bytes(content[:-40])
    with pytest.raises(InputError, match=r"pets: cat/b\.png cannot be decoded \(.*\); repair or remove it$"):
        read_table(folder)


def encoded(kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.arange(72, dtype=np.uint8).reshape(4, 6, 3)).save(stream, kind)
    return stream.getvalue()


ENCODED = {kind: encoded(kind) for kind in ("PNG", "JPEG")}


@given(
    st.sampled_from(sorted(ENCODED)),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6),
    st.integers(0, 60),
)
@settings(max_examples=150)
def test_a_damaged_picture_is_read_or_refused(kind: str, changes: list[tuple[int, int]], cut: int) -> None:
    content = bytearray(ENCODED[kind])
    for at, value in changes:
        content[at % len(content)] = value
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for class_name in ("cat", "dog"):
            (folder / class_name).mkdir()
            (folder / class_name / "a.png").write_bytes(ENCODED[kind])
        (folder / "dog/b.png").write_bytes(content[: len(content) - cut])
        try:
            assert len(read_table(folder)) == 3
        except InputError as error:
            assert "dog/b.png" in str(error)
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("given_names", "said"),
    [
        ({"label": "kind"}, "the classes of a folder of images are its folders"),
        ({"id_column": "kind"}, "ids their paths"),
        ({"task": "regression"}, "a regression task"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(
    tmp_path: Path, given_names: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read_table(two_classes(tmp_path), **given_names)  # type: ignore[arg-type]


def test_an_empty_folder_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no images \(.png, .jpg, .jpeg\) in folders named after"):
        read_table(tmp_path)
    picture(tmp_path / "a.png")
    with pytest.raises(InputError, match="has no images"):
        read_table(tmp_path)


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = two_classes(tmp_path)
    (folder / "cat/a.png").rename(os.fsdecode(os.fsencode(folder) + b"/cat/\xff.png"))
    with pytest.raises(InputError, match="cannot be written down as an id"):
        read_table(folder)
