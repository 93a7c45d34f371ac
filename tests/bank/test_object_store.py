"""Runs in object stores: resumed elsewhere, killed at every upload, damaged, hostile; and on an S3 server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from leakscope.audits.run import audit
from leakscope.bank.bank import Bank
from leakscope.bank.object_store import INDEX, Mirror, address_of, working_copy
from leakscope.errors import CorruptBankError, InputError, StorageError
from leakscope.runs.verification import verify_run
from tests.engine.small_population import RECIPE, complete, contents, count_training, records, use_blocks_of

URL = "memory://store/run"
BLOCKS = [[0, 1, 2], [3, 4, 5], [6]]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """fsspec's store in memory, empty; and small blocks."""
    use_blocks_of(monkeypatch, 3)
    move(monkeypatch, tmp_path / "first")
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    yield memory
    memory.store.clear()


def move(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """As if on another machine."""
    monkeypatch.setenv("LEAKSCOPE_CACHE", str(cache))


def complete_there(url: str = URL) -> Bank:
    with working_copy(url) as folder:
        return complete(folder)


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ("s3://bucket/run", "s3://bucket/run"),
        (Path("s3://bucket/run"), "s3://bucket/run"),
        ("gs://bucket/a/b/", "gs://bucket/a/b"),
        ("runs/demo", None),
        (Path("/tmp/s3/run"), None),
        ("C:/runs/demo", None),
    ],
)
def test_addresses_are_told_from_paths(out: Path | str, expected: str | None) -> None:
    assert address_of(out) == expected


def test_a_path_is_used_as_it_is(tmp_path: Path) -> None:
    with working_copy(tmp_path / "run") as folder:
        assert folder == tmp_path / "run"


def test_a_run_that_was_stopped_goes_on_on_another_machine(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt), working_copy(URL) as folder:
        complete(folder, progress=_stop_after(4))
    there = {path.removeprefix("/store/run/") for path in store.find("/store/run")}
    assert {"identity.json", INDEX, "blocks/00000/block.json"} <= there
    assert not any(".leakscope" in name for name in there)

    move(monkeypatch, tmp_path / "second")
    trained = count_training(monkeypatch)
    complete_there()
    assert trained == BLOCKS[1:]
    there = {path.removeprefix("/store/run/") for path in store.find("/store/run")}
    assert "manifest.json" in there
    assert not any(name.startswith("blocks/") for name in there)

    move(monkeypatch, tmp_path / "third")
    trained.clear()
    bank = complete_there()
    assert trained == []
    assert bank.damage() == []
    complete(tmp_path / "local")
    assert contents(bank.folder) == contents(tmp_path / "local")


def test_a_run_killed_at_any_upload_ends_as_if_nothing_had_happened(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = contents(complete(tmp_path / "local").folder)
    sent = type(store).put_file
    n_uploads = 0
    for kill_at in range(100):
        store.store.clear()
        n_uploads = 0

        def dying(self: Any, *given: Any, kill_at: int = kill_at, **named: Any) -> Any:
            nonlocal n_uploads
            n_uploads += 1
            if n_uploads > kill_at:
                raise ConnectionError("the network is gone")
            return sent(self, *given, **named)

        move(monkeypatch, tmp_path / f"first {kill_at}")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(store), "put_file", dying)
            try:
                complete_there()
            except StorageError as error:
                assert "run the same command again to resume" in str(error)
        if kill_at and n_uploads <= kill_at:
            break
        move(monkeypatch, tmp_path / f"second {kill_at}")
        assert contents(complete_there().folder) == undisturbed
    assert n_uploads > 10


@pytest.mark.parametrize("name", ["signals/loss.npy", "manifest.json", "design.npy"])
def test_a_damaged_file_is_left_out_and_made_anew(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = contents(complete_there().folder)
    content = store.cat_file(f"/store/run/{name}")
    store.pipe_file(f"/store/run/{name}", content[:-1] + bytes([content[-1] ^ 1]))
    move(monkeypatch, tmp_path / "second")
    copy = tmp_path / "copy"
    copy.mkdir()
    assert Mirror(URL, copy).fetch() == [name]
    bank = complete_there()
    assert contents(bank.folder) == before
    assert bank.damage() == []
    move(monkeypatch, tmp_path / "third")
    assert contents(complete_there().folder) == before


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside", "a\\..\\b", ".", "x\0y"])
def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path: Path, store: Any, name: str) -> None:
    index = {"files": {name: "0" * 64}}
    store.pipe_file(f"/store/run/{INDEX}", json.dumps(index).encode())
    with pytest.raises(CorruptBankError, match="which is no file of a run folder"):
        complete_there()
    assert not list(tmp_path.rglob("*outside*"))


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"files": 3}', b'{"files": {"a": 7}}', b'{"files": {"a": "f"}}']
)
def test_an_index_that_is_none_is_refused(store: Any, content: bytes) -> None:
    store.pipe_file(f"/store/run/{INDEX}", content)
    with pytest.raises(CorruptBankError, match="is damaged"):
        complete_there()


def test_somebody_elses_files_are_left_alone(store: Any) -> None:
    store.pipe_file("/store/run/thesis.docx", b"years of work")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        complete_there()
    assert store.find("/store/run") == ["/store/run/thesis.docx"]


@pytest.mark.parametrize("url", ["nonsense://a/b", "s4://bucket/run"])
def test_an_unknown_kind_of_address_is_named(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="use an address like s3://bucket/run"), working_copy(url):
        pass


@pytest.mark.slow
def test_an_audit_on_an_s3_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained here, judged again from a fresh copy: a real server, loopback only."""
    pytest.importorskip("s3fs", reason="s3fs is not installed (pip install 'leakscope[s3]')")
    server = pytest.importorskip("moto.server", reason="moto is not installed (leakscope[cluster-tests])")
    use_blocks_of(monkeypatch, 4)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        _, port = running.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "made-up",
            "AWS_SECRET_ACCESS_KEY": "made-up",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        s3 = fsspec.filesystem("s3")
        s3.mkdir("bucket")
        local = audit(records(), RECIPE, tmp_path / "local", models=8, device="cpu")
        move(monkeypatch, tmp_path / "first")
        audit(records(), RECIPE, "s3://bucket/run", models=8, device="cpu")
        trained = count_training(monkeypatch)
        move(monkeypatch, tmp_path / "second")
        again = audit(records(), RECIPE, "s3://bucket/run", models=8, device="cpu")
        assert trained == []
        assert again.results == local.results
        assert verify_run(again.folder).problems == []
        s3.invalidate_cache()
        there = {path.removeprefix("bucket/run/") for path in s3.find("bucket/run")}
        here = {str(p.relative_to(again.folder)) for p in again.folder.rglob("*") if p.is_file()}
        assert there == here | {INDEX}
    finally:
        running.stop()


def _stop_after(n_models: float) -> Any:
    done = 0.0

    def stop(models: float) -> None:
        nonlocal done
        done += models
        if done > n_models:
            raise KeyboardInterrupt

    return stop
