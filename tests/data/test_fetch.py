from __future__ import annotations

import functools
import hashlib
import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from leakscope.data.catalogue import Dataset, PublishedFile
from leakscope.data.fetch import fetch
from leakscope.errors import DataMissingError, StorageError

CONTENT = {"a.bin": b"first " * 1000, "b.txt": b"second"}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder


@pytest.fixture
def address(served: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(served))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def entry(served: Path, address: str) -> Dataset:
    for name, content in CONTENT.items():
        (served / name).write_bytes(content)
    return Dataset(
        name="toy",
        summary="two files",
        loader="none:none",
        n_records=1,
        shape=(1,),
        n_classes=2,
        source="here",
        licence="none",
        folder="toy-folder",
        files=tuple(
            PublishedFile(name, len(content), hashlib.sha256(content).hexdigest())
            for name, content in CONTENT.items()
        ),
        mirrors=(address,),
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def test_files_arrive_with_progress(entry: Dataset, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    fetched = fetch(entry, tmp_path, lambda *step: steps.append(step))
    assert contents(tmp_path / "toy-folder") == CONTENT
    assert [file.downloaded for file in fetched] == [True, True]
    assert steps == [("a.bin", 6000, 6000), ("b.txt", 6, 6)]


def test_right_files_are_kept_and_wrong_ones_replaced(entry: Dataset, served: Path, tmp_path: Path) -> None:
    fetch(entry, tmp_path)
    (tmp_path / "toy-folder" / "b.txt").write_bytes(b"spoiled")
    (served / "a.bin").unlink()
    fetched = fetch(entry, tmp_path)
    assert [file.downloaded for file in fetched] == [False, True]
    assert contents(tmp_path / "toy-folder") == CONTENT


@pytest.mark.parametrize("wrong", [b"secone", b"second and more", b""])
def test_a_wrong_checksum_leaves_no_file(entry: Dataset, served: Path, tmp_path: Path, wrong: bytes) -> None:
    (served / "b.txt").write_bytes(wrong)
    with pytest.raises(
        DataMissingError, match=r"cannot download b\.txt .*sha256 of b\.txt is \w{64}, expected"
    ):
        fetch(entry, tmp_path)
    assert contents(tmp_path / "toy-folder") == {"a.bin": CONTENT["a.bin"]}


def test_a_wrong_download_does_not_touch_what_is_there(entry: Dataset, served: Path, tmp_path: Path) -> None:
    fetch(entry, tmp_path)
    (tmp_path / "toy-folder" / "b.txt").write_bytes(b"mine")
    (served / "b.txt").write_bytes(b"wrong")
    with pytest.raises(DataMissingError):
        fetch(entry, tmp_path)
    assert contents(tmp_path / "toy-folder")["b.txt"] == b"mine"


def test_an_absent_file_says_where_to_get_it_and_where_to_put_it(
    entry: Dataset, served: Path, tmp_path: Path, address: str
) -> None:
    (served / "a.bin").unlink()
    with pytest.raises(DataMissingError) as caught:
        fetch(entry, tmp_path)
    message = str(caught.value)
    assert f"{address}a.bin: HTTP 404" in message and "\n" not in message
    assert message.endswith(f"put it in {tmp_path / 'toy-folder'}")
    assert not (tmp_path / "toy-folder").exists()


def test_the_next_mirror_helps_out(entry: Dataset, tmp_path: Path, address: str) -> None:
    fetch(replace(entry, mirrors=(f"{address}gone/", address)), tmp_path)
    assert contents(tmp_path / "toy-folder") == CONTENT


def test_no_network(entry: Dataset, tmp_path: Path) -> None:
    refused = replace(entry, mirrors=("http://127.0.0.1:9/",))
    with pytest.raises(DataMissingError, match=r"http://127\.0\.0\.1:9/a\.bin: Connection refused"):
        fetch(refused, tmp_path)
    assert not (tmp_path / "toy-folder").exists()


def test_a_dataset_without_files_needs_nothing(entry: Dataset, tmp_path: Path) -> None:
    assert fetch(replace(entry, files=(), mirrors=()), tmp_path) == []


def test_a_folder_that_cannot_be_made(entry: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write .*choose another folder with --data-dir"):
        fetch(entry, tmp_path / "file")


# archives


def from_archive(entry: Dataset, served: Path, members: dict[str, bytes]) -> Dataset:
    """The toy dataset, published as one archive with these members."""
    with tarfile.open(served / "toy.tar.gz", "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return replace(entry, mirrors=(), archive=f"{entry.mirrors[0]}toy.tar.gz")


GOOD_MEMBERS = {f"toy-folder/{name}": content for name, content in CONTENT.items()}


def test_only_the_wanted_members_are_extracted(entry: Dataset, served: Path, tmp_path: Path) -> None:
    members = {"toy-folder/extra.txt": b"no", "../escaped.txt": b"no", "a.bin": b"no", **GOOD_MEMBERS}
    packed = from_archive(entry, served, members)
    assert [file.downloaded for file in fetch(packed, tmp_path)] == [True, True]
    assert contents(tmp_path / "toy-folder") == CONTENT
    assert not (tmp_path / "escaped.txt").exists() and not (tmp_path.parent / "escaped.txt").exists()


def test_an_archive_is_not_fetched_again(entry: Dataset, served: Path, tmp_path: Path) -> None:
    packed = from_archive(entry, served, GOOD_MEMBERS)
    fetch(packed, tmp_path)
    (served / "toy.tar.gz").unlink()
    assert [file.downloaded for file in fetch(packed, tmp_path)] == [False, False]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"toy-folder/a.bin": b"wrong"}, r"sha256 of a\.bin is"),
        ({"toy-folder/b.txt": CONTENT["b.txt"]}, r"the archive lacks toy-folder/a\.bin"),
    ],
)
def test_a_wrong_archive_leaves_no_wrong_file(
    entry: Dataset, served: Path, tmp_path: Path, members: dict[str, bytes], message: str
) -> None:
    with pytest.raises(DataMissingError, match=message):
        fetch(from_archive(entry, served, members), tmp_path)
    left = contents(tmp_path / "toy-folder")
    assert all(CONTENT[name] == content for name, content in left.items())
    assert "a.bin" not in left


@pytest.mark.parametrize("damage", [lambda packed: packed[:-40], lambda packed: b"<html>" + packed])
def test_a_damaged_archive_leaves_no_wrong_file(
    entry: Dataset, served: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    packed = from_archive(entry, served, GOOD_MEMBERS)
    path = served / "toy.tar.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataMissingError, match=r"cannot get http.*toy\.tar\.gz \(.+\); download it"):
        fetch(packed, tmp_path)
    left = contents(tmp_path / "toy-folder")
    assert all(CONTENT[name] == content for name, content in left.items())


def test_a_link_in_an_archive_is_not_a_file(entry: Dataset, served: Path, tmp_path: Path) -> None:
    packed = from_archive(entry, served, GOOD_MEMBERS)
    with tarfile.open(served / "toy.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("toy-folder/a.bin")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(member)
    with pytest.raises(DataMissingError, match="the archive lacks"):
        fetch(packed, tmp_path)
