"""What a run folder must not hold, and settings that would do nothing: refused, in one line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leakscope
from leakscope.bank.results import read_results
from leakscope.disclosure import Disclosure
from leakscope.errors import CorruptBankError, InputError, LeakscopeError
from leakscope.evaluate.results import AuditResults
from leakscope.runs.kinds import rebuild_report
from tests.cli.command import run_command
from tests.engine.small_population import RECIPE, records
from tests.made_up_audits import made_up_audit, quick_single_records


@pytest.fixture
def alarm() -> Iterator[None]:
    """Ends a test that waits for a pipe."""

    def expired(*_: object) -> None:
        raise AssertionError("waits for a pipe or a device")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


COMMANDS = (["verify"], ["report"], ["open", "--print-only"], ["judge"], ["compare", "run"])


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def socket_file(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # a socket's path may have 107 characters


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    with quick_single_records():
        made_up_audit(folder, 1.0, attacks=("loss",))
    return folder


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object in `value`, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for one in inner:
        yield from objects(one)


def test_a_field_that_no_run_writes_is_refused_wherever_it_is(run: Path, tmp_path: Path) -> None:
    stored = json.loads((run / "results.json").read_text())
    n_objects, refused = len(list(objects(stored))), 0
    for index in range(n_objects):
        content = json.loads((run / "results.json").read_text())
        list(objects(content))[index]["approved_by"] = "nobody"
        (tmp_path / "results.json").write_text(json.dumps(content))
        try:
            read_results(tmp_path, AuditResults)
        except CorruptBankError as error:
            refused += "approved_by" in str(error)
    # A table of names, such as the recipe's settings, may hold any; nothing else may.
    assert n_objects > 20
    assert n_objects - refused <= 8


def test_showing_the_members_of_a_population_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"with_membership.*would do nothing"):
        rebuild_report(run, Disclosure(with_membership=True))
    assert not (run / "report.html").exists()
    with pytest.raises(InputError, match=r"with_membership.*would do nothing"):
        leakscope.audit(
            records(), RECIPE, tmp_path / "new", models=2, disclosure=Disclosure(with_membership=True)
        )
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize(
    "replace",
    [pipe, pytest.param(endless, marks=pytest.mark.slow), pytest.param(socket_file, marks=pytest.mark.slow)],
)
def test_nothing_but_regular_files_is_read_from_a_received_folder(
    replace: Callable[[Path], None], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file of it is a pipe, a link to an endless device or a socket."""
    monkeypatch.chdir(tmp_path)
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / "report.html").write_text("a page")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.unlink()
        replace(path)
        for command in COMMANDS if path.suffix == ".json" else COMMANDS[:2]:
            ended = run_command(*command, folder)
            assert ended.exit_code in (2, 3), (path, command)
            assert len(ended.err.splitlines()) == 1 and path.name in ended.err, (path, command)
        with pytest.raises(LeakscopeError, match=path.name):
            leakscope.open_run(folder)
        path.unlink()
        path.write_bytes(content)
