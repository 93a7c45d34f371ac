"""Real disks that are full or read-only: one line, exit code 3, and the run goes on once there is room."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leakscope.studies.scaling import judge
from tests.cli.command import Outcome, files_under, run_command

STUDY = ("study", "scaling", "--widths", "4,6", "--n-repeats", "2", "--n-shadow", "1", "--n-reference", "2",
         "--n-samples", "60", "--n-initializations", "1", "--no-published-seeds", "--quiet")  # fmt: skip

Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a small disk in memory with the given options; unmounted at the end."""
    at = tmp_path / "disk"
    at.mkdir()

    def mounted(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "leakscope-test", at]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no mount command")
        if done.returncode:
            pytest.skip(f"cannot mount a disk here: {done.stderr.strip()}")
        return at

    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root")
    yield mounted
    if at.is_mount():
        subprocess.run(["umount", at], check=True)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_N_DRAWS", 50)


def run_study(out: Path) -> Outcome:
    return run_command(*STUDY, "--out", out)


def test_a_full_disk_is_one_line_and_the_run_goes_on_after(mount: Mount, tmp_path: Path) -> None:
    assert run_study(tmp_path / "undisturbed").exit_code == 0
    disk = mount("size=4k,nr_inodes=64")
    for n_kilobytes in (4, 40, 60, 100, 140, 300):  # the run needs about half a megabyte
        subprocess.run(["mount", "-o", f"remount,size={n_kilobytes}k,nr_inodes=200", disk], check=True)
        failed = run_study(disk / "run")
        assert failed.exit_code == 3, failed.err
        (line,) = failed.err.splitlines()
        assert line.startswith(f"leakscope: cannot write {disk}/run")
        assert line.endswith("the disk is full; free some space, or choose another folder with --out")
        assert not [name for name in files_under(disk) if "tmp-" in name]
    subprocess.run(["mount", "-o", "remount,size=16m,nr_inodes=2000", disk], check=True)
    assert run_study(disk / "run") == Outcome(0, "", "")
    assert _results(disk / "run") == _results(tmp_path / "undisturbed")


def test_a_disk_without_free_inodes_is_one_line(mount: Mount) -> None:
    disk = mount("size=4m,nr_inodes=8")
    failed = run_study(disk / "run")
    assert failed.exit_code == 3
    assert failed.err.count("\n") == 1
    assert "the disk is full" in failed.err


def test_a_read_only_disk_is_one_line(mount: Mount) -> None:
    disk = mount("ro")
    failed = run_study(disk / "run")
    assert failed.exit_code == 3
    reason = "the file system is read-only; choose another folder with --out"
    assert failed.err == f"leakscope: cannot write {disk}/run: {reason}\n"


def test_a_disk_that_turns_read_only_is_one_line_and_the_run_still_reads(mount: Mount) -> None:
    disk = mount("size=16m")
    assert run_study(disk / "run").exit_code == 0
    before = files_under(disk)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    failed = run_study(disk / "run")
    assert failed.exit_code == 3
    (line,) = failed.err.splitlines()
    assert "the file system is read-only" in line
    assert run_command("verify", disk / "run").exit_code == 0
    assert files_under(disk) == before


def _results(out: Path) -> dict[str, bytes]:
    """All files but manifests, which say when models were trained, and checksums; a page says the minute."""
    moment = rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    return {
        name: re.sub(moment + b"( to " + moment + b")?", b"", content)
        for name, content in files_under(out).items()
        if not name.endswith(("manifest.json", "sha256.json"))
    }


def test_a_full_folder_for_temporary_files_is_one_line(
    mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is as good as before; what is wrong is the disk that its columns are written to."""
    rows = "".join(f"r{row},{row % 2},{row / 7:.6f},{row / 3:.6f}\n" for row in range(40_000))
    (tmp_path / "table.csv").write_text(f"id,label,a,b\n{rows}")
    monkeypatch.setattr(tempfile, "tempdir", str(mount("size=64k")))
    ended = run_command("audit", "--predictions", tmp_path / "table.csv", "--out", tmp_path / "run")
    assert ended.exit_code == 3
    assert "disk is full" in ended.err and "TMPDIR" in ended.err and len(ended.err.splitlines()) == 1
