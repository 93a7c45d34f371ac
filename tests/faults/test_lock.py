"""One run at a time in a folder: a second is refused with the first's pid, a dead one is in nobody's way."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.bank.run_folder import locked_run_folder
from leakscope.disk.lock import OWNER, Owner, folder_lock, read_owner, this_process
from leakscope.disk.storage import LOCK
from leakscope.errors import FolderInUseError, StorageError
from tests.bank.small_bank import complete
from tests.claims import claim
from tests.cli.command import files_under, run_command

STUDY = ("study", "scaling", "--widths", "4", "--n-repeats", "2", "--n-shadow", "1", "--n-reference", "2",
         "--n-samples", "60", "--n-initializations", "1", "--no-published-seeds", "--quiet",
         "--out")  # fmt: skip

NO_LOCKS = """
import errno, fcntl
def no_locks(file, operation):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = no_locks
"""

HOLD = """
import sys
from pathlib import Path
from leakscope.disk.lock import folder_lock
with folder_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

COUNT = """
import sys, time
from pathlib import Path
from leakscope.disk.lock import folder_lock
from leakscope.errors import FolderInUseError
folder, n = Path(sys.argv[1]), int(sys.argv[2])
counter = folder / "count"
while n:
    try:
        with folder_lock(folder):
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
        monkeypatch.setattr(fcntl, "flock", _no_locks)
    return str(request.param)


@contextmanager
def other_holder(folder: Path, kind: str = "flock") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the folder until the end of the block, unless it dies before."""
    command = [sys.executable, "-c", script(HOLD, kind), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def script(code: str, kind: str) -> str:
    return NO_LOCKS + code if kind == "no flock" else code


def _no_locks(file: object, operation: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def leave_note(folder: Path, owner: Owner) -> None:
    """What a run leaves that was killed, or is on another machine."""
    folder.mkdir(exist_ok=True)
    (folder / OWNER).write_text(json.dumps(asdict(owner)))
    (folder / LOCK).touch()


def leave_marker(folder: Path, owner: Owner) -> None:
    """The same where the file system has no locks."""
    leave_note(folder, owner)
    (folder / f"{LOCK}-marker").write_text(f"{owner.pid}\n{owner.host}\n")


def test_the_second_is_refused_with_the_firsts_pid_and_may_come_later(tmp_path: Path, kind: str) -> None:
    with other_holder(tmp_path, kind) as first:
        with pytest.raises(FolderInUseError) as refused, folder_lock(tmp_path):
            pass
        assert f"(pid {first.pid} on {platform.node()}, since 2" in str(refused.value)
        assert "choose another folder with --out" in str(refused.value)
        first.communicate("")
        with folder_lock(tmp_path):
            owner = read_owner(tmp_path / OWNER)
            assert owner is not None
            assert owner == replace(this_process(), since=owner.since)
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
    assert read_owner(tmp_path / "run" / OWNER) is not None
    claim(tmp_path / "run", "study", {})
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_a_copy_of_a_folder_at_work_is_free(tmp_path: Path) -> None:
    """The lock is on the file of the original; the copied note of this machine binds nobody."""
    leave_note(tmp_path, this_process())
    with folder_lock(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_locks_a_living_process_is_believed_and_a_dead_one_is_not(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fcntl, "flock", _no_locks)
        with other_holder(tmp_path, "no flock") as first:
            with pytest.raises(FolderInUseError, match=f"pid {first.pid} on"), folder_lock(tmp_path):
                pass
            first.send_signal(signal.SIGKILL)
            first.wait()
        with folder_lock(tmp_path):
            assert sorted(path.name for path in tmp_path.iterdir()) == [f"{LOCK}-marker", OWNER]
    assert list(tmp_path.iterdir()) == []


def test_another_machine_is_named_with_the_file_to_remove(tmp_path: Path, kind: str) -> None:
    elsewhere = Owner(77, "node-12", "another boot", "2026-01-01T00:00:00+00:00")
    leave = leave_marker if kind == "no flock" else leave_note
    leave(tmp_path / "run", elsewhere)
    path = tmp_path / "run" / (f"{LOCK}-marker" if kind == "no flock" else OWNER)
    with pytest.raises(FolderInUseError, match=rf"pid 77 on node-12, .* remove {path}$"):
        claim(tmp_path / "run", "study", {})
    assert read_owner(tmp_path / "run" / OWNER) == elsewhere
    path.unlink()
    claim(tmp_path / "run", "study", {})
    leave_note(tmp_path / "run", replace(elsewhere, host=platform.node()))  # this one, before a restart
    claim(tmp_path / "run", "study", {})


def test_of_many_at_once_one_is_in_at_a_time(tmp_path: Path, kind: str) -> None:
    """Four processes count in one file, each reading and writing it under the lock: no count is missing."""
    (tmp_path / "count").write_text("")
    if kind == "no flock":  # a dead owner to be taken over, which is where two could meet
        with other_holder(tmp_path, kind) as dead:
            dead.send_signal(signal.SIGKILL)
            dead.wait()
    command = [sys.executable, "-c", script(COUNT, kind), str(tmp_path), "25"]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert (tmp_path / "count").read_text() == "100"


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
@settings(max_examples=50)
def test_whatever_the_note_says_it_names_no_owner_or_one(content: bytes) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"{LOCK}-{os.getpid()}"
    path.write_bytes(content)
    try:
        assert read_owner(path) is None
    finally:
        path.unlink()
