"""One run at a time in a folder: a second is refused with the first's pid, a dead one is in nobody's way."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.bank.run_folder import locked_run_folder
from leakscope.disk import lock
from leakscope.disk.lock import folder_lock
from leakscope.disk.lock_owner import Holder, read_holder, this_process
from leakscope.disk.storage import LOCK
from leakscope.errors import FolderInUseError, StorageError
from tests.bank.small_bank import complete
from tests.claims import claim
from tests.cli.command import files_under, run_command

STUDY = ("study", "scaling", "--widths", "4", "--n-repeats", "2", "--n-shadow", "1", "--n-reference", "2",
         "--n-samples", "60", "--quiet", "--out")  # fmt: skip

HOLD = """
import sys, time
from pathlib import Path
from leakscope.bank import lock
if sys.argv[2] == "no flock":
    lock.fcntl = None
with lock.folder_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

COUNT = """
import sys, time
from pathlib import Path
from leakscope.bank import lock
from leakscope.errors import FolderInUseError
folder, n = Path(sys.argv[1]), int(sys.argv[3])
if sys.argv[2] == "no flock":
    lock.fcntl = None
counter = folder / "count"
while n:
    try:
        with lock.folder_lock(folder):
            count = int(counter.read_text() or 0)
            time.sleep(0.001)  # long enough for another to read the same
            counter.write_text(str(count + 1))
            n -= 1
    except FolderInUseError:
        time.sleep(0.001)
"""


@pytest.fixture(params=["flock", "no flock"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the system's locks, and as on a file system that has none."""
    if request.param == "no flock":
        monkeypatch.setattr(lock, "fcntl", None)
    return str(request.param)


@contextmanager
def other_holder(folder: Path, kind: str = "flock") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the folder until the end of the block, unless it dies before."""
    command = [sys.executable, "-c", HOLD, str(folder), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def leave_record(folder: Path, holder: Holder) -> None:
    folder.mkdir(exist_ok=True)
    (folder / LOCK).write_bytes(holder.as_bytes())


def test_the_second_is_refused_with_the_firsts_pid_and_may_come_later(tmp_path: Path, kind: str) -> None:
    with other_holder(tmp_path, kind) as first:
        with pytest.raises(FolderInUseError) as refused, folder_lock(tmp_path):
            pass
        assert f"(pid {first.pid} on {platform.node()}, since 2" in str(refused.value)
        assert "choose another folder with --out" in str(refused.value)
        first.communicate("")
        with folder_lock(tmp_path):
            assert read_holder(tmp_path / LOCK) == replace(
                this_process(), since=getattr(read_holder(tmp_path / LOCK), "since", "")
            )
    assert list(tmp_path.iterdir()) == []


def test_a_second_command_is_one_line_and_exit_code_3_and_readers_do_not_mind(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_command(*STUDY, out).exit_code == 0
    with other_holder(out) as first:
        before = files_under(out)
        refused = run_command(*STUDY, out)
        assert refused.exit_code == 3
        (line,) = refused.err.splitlines()
        assert line.startswith(f"leakscope: {out} is in use by another run (pid {first.pid} on ")
        assert run_command("verify", out).exit_code == 0
        assert files_under(out) == before
    assert run_command(*STUDY, out).exit_code == 0


def test_a_killed_holder_leaves_a_file_that_is_in_nobodys_way(tmp_path: Path, kind: str) -> None:
    with other_holder(tmp_path / "run", kind) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert read_holder(tmp_path / "run" / LOCK) is not None
    claim(tmp_path / "run", "study", {})
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_a_number_used_again_is_not_the_process_that_had_it(tmp_path: Path, kind: str) -> None:
    me = this_process()
    assert me.is_alive
    assert not replace(me, started=me.started + 1).is_alive
    assert not replace(me, boot="before the restart").is_alive
    leave_record(tmp_path, replace(me, started=me.started - 1))
    with folder_lock(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_without_flock_a_living_process_is_believed_and_a_copied_folder_is_not_its(tmp_path: Path) -> None:
    """With `flock` a copy of a folder at work is free: the lock is the file's, not the record's."""
    leave_record(tmp_path, this_process())
    with folder_lock(tmp_path):
        pass
    leave_record(tmp_path, this_process())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lock, "fcntl", None)
        with pytest.raises(FolderInUseError, match=f"pid {os.getpid()} on"), folder_lock(tmp_path):
            pass
    assert (tmp_path / LOCK).exists()


def test_another_machine_is_named_with_the_file_to_remove(tmp_path: Path, kind: str) -> None:
    elsewhere = Holder(77, "node-12", "another boot", 5, "2026-01-01T00:00:00+00:00")
    leave_record(tmp_path / "run", elsewhere)
    path = tmp_path / "run" / LOCK
    with pytest.raises(FolderInUseError, match=rf"pid 77 on node-12, .* remove {path}$"):
        claim(tmp_path / "run", "study", {})
    assert read_holder(path) == elsewhere
    path.unlink()
    claim(tmp_path / "run", "study", {})
    leave_record(tmp_path / "run", replace(elsewhere, host=platform.node()))  # this one, before a restart
    claim(tmp_path / "run", "study", {})


def test_of_many_at_once_one_is_in_at_a_time(tmp_path: Path, kind: str) -> None:
    """Four processes count in one file, each reading and writing it under the lock: nothing is lost."""
    (tmp_path / "count").write_text("")
    if kind == "no flock":  # a dead holder to be taken over, which is where two could meet
        leave_record(tmp_path, replace(this_process(), started=1))
    command = [sys.executable, "-c", COUNT, str(tmp_path), kind, "25"]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert (tmp_path / "count").read_text() == "100"


def test_a_file_system_without_locks_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    with folder_lock(tmp_path):
        assert read_holder(tmp_path / LOCK) is not None
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    assert list(tmp_path.iterdir()) == []


def test_a_thread_may_take_it_again_and_another_may_not(tmp_path: Path) -> None:
    found: list[str] = []

    def other_thread() -> None:
        try:
            with folder_lock(tmp_path):
                found.append("in")
        except FolderInUseError as error:
            found.append(str(error))

    with folder_lock(tmp_path), locked_run_folder(tmp_path, "study", {}), folder_lock(tmp_path / "." / ""):
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
    assert f"pid {os.getpid()} on" in found[0]
    other_thread()
    assert found[1] == "in"


def test_an_error_inside_lets_go(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), locked_run_folder(tmp_path, "study", {}):
        raise ValueError("inside")
    assert not (tmp_path / LOCK).exists()
    assert complete(tmp_path / "bank") == [0, 1, 2]


def test_a_link_is_not_followed_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError, match="cannot write"), folder_lock(tmp_path / "run"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


@given(st.binary(max_size=60) | st.sampled_from([b"[" * 5000, b'{"pid": 1e999}', b"null", b"{}"]))
@settings(max_examples=50, deadline=None)
def test_whatever_the_file_says_it_is_no_holder_or_one(content: bytes) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"{LOCK}-{os.getpid()}"
    path.write_bytes(content)
    try:
        assert read_holder(path) is None
    finally:
        path.unlink()
