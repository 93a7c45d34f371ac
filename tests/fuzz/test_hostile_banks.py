"""Hostile run folders: each of these once ended in a traceback, or in a file outside the folder."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from leakscope.bank.bank import Bank
from leakscope.bank.merge import plan_merge, write_merge
from leakscope.disclosure import KEY, keyed_ids
from leakscope.errors import CorruptBankError, LeakscopeError, StorageError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.runs.verification import verify_run
from tests.fuzz.documents import reseal
from tests.fuzz.hostile_files import npy
from tests.fuzz.runs import answers_into, template


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(template(), tmp_path / "run"))


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"models": 3', '"models": 10000000000000'),
        ('"models": 3', '"models": "3"'),
        ('"models"', '"modles"'),
        ('"block_size": ', '"block_size": [1, 1], "more": '),
        ('"block_size": ', '"block_size": -'),
        ('"signals": [', '"signals": ["../../../../evil", '),
        ('"evaluated_epochs": [', '"evaluated_epochs": [null, '),
        ('"columns": 24', '"columns": 1e12'),
        ('"seed": 0', '"seed": NaN'),
        ('"seed": 0', '"seed": 1e999'),
        ('"seed": 0', '"seed": [[]]'),
        ('"seed": 0', '"seed": {}'),
        ('"parts": []', '"parts": [[]]'),
        ('"parts": []', '"parts": [], "more": 1'),
    ],
)
def test_identities_that_no_bank_has(run: Path, tmp_path: Path, old: str, new: str) -> None:
    """Also where the checksums were made to fit: a name in it must never become a path outside."""
    change(run / "identity.json", old, new)
    reseal(run)
    for use in (lambda: verify_run(run), lambda: Bank.open(run).signals(),
                lambda: write_merge(plan_merge([run, template()]), tmp_path / "merged")):  # fmt: skip
        with pytest.raises(CorruptBankError, match=r"identity\.json is damaged"):
            use()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"files": {', '"files": {"../../../x": "0", '),
        ('"diverged_models": {}', '"diverged_models": {"one": 1}'),
        ('"diverged_models": {}', '"diverged_models": {"99": 1}'),
        ('"signals": {', '"signals": {"../x": {"dtype": "<f4", "shape": [3, 1, 24], "sha256": ["0"]}, '),
        ('"dtype": "<f4"', '"dtype": "O"'),
        ('"dtype": "<f4"', '"dtype": "no"'),
        ('"shape": [\n        3,', '"shape": [\n        3000000000000,'),
    ],
)
def test_manifests_that_no_bank_has(run: Path, old: str, new: str) -> None:
    change(run / "manifest.json", old, new)
    reseal(run)
    for use in (lambda: verify_run(run), lambda: Bank.open(run).diverged):
        with pytest.raises(CorruptBankError, match=r"manifest\.json is damaged"):
            use()


@pytest.mark.parametrize("name", ["design.npy", "labels.npy", "signals/log_odds.npy"])
def test_arrays_that_are_others(run: Path, name: str) -> None:
    for array in (np.zeros(5), np.zeros((3, 7), bool), np.zeros((2, 1, 24), np.float32)):
        np.save(run / name, array)
        reseal(run)
        with pytest.raises(CorruptBankError, match=Path(name).name):
            Bank.open(run).design(), Bank.open(run).signals()
    (run / name).write_bytes(npy("'''"))
    with pytest.raises(CorruptBankError, match=Path(name).name):
        Bank.open(run).design(), Bank.open(run).signals()


@pytest.mark.parametrize(
    "name", ["run.json", "results.json", "identity.json", "manifest.json", "facts.parquet", "design.npy"]
)
def test_a_folder_where_a_file_should_be(run: Path, name: str) -> None:
    (run / name).unlink()
    (run / name).mkdir()
    with contextlib.suppress(LeakscopeError):
        assert verify_run(run).problems
    with pytest.raises(LeakscopeError):
        answers_into(run)


@pytest.mark.slow
def test_facts_of_other_columns_or_none(run: Path) -> None:
    whole = (run / "facts.parquet").read_bytes()
    frame = pl.read_parquet(run / "facts.parquet")
    frames = [frame.drop("id"), frame.drop("label"), frame.with_columns(id=pl.lit(3)),
              frame.with_columns(duplicate_of=pl.lit(10**9))]  # fmt: skip
    for spoiled in frames:
        spoiled.write_parquet(run / "facts.parquet")
        with pytest.raises(CorruptBankError, match=r"facts\.parquet is damaged"):
            RecordMetadata.read(run)
    (run / "facts.parquet").write_bytes(whole[:-9])
    assert any("facts.parquet is damaged" in problem for problem in verify_run(run).problems)


@pytest.mark.parametrize("spoiled", ['"attacks": 3', '"attacks": ["no"]', '"attacks": [[]]', '"oops": 1'])
def test_a_configuration_that_cannot_be_asked(run: Path, spoiled: str) -> None:
    results = json.loads((run / "results.json").read_text())
    key, value = next(iter(json.loads(f"{{{spoiled}}}").items()))
    results["config"] = {**{k: v for k, v in results["config"].items() if k != "attacks"}, key: value}
    (run / "results.json").write_text(json.dumps(results))
    (problem,) = verify_run(run).problems
    assert "cannot be computed again" in problem


def test_targets_that_are_none(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    results["config"]["targets"] = [[]]
    (run / "results.json").write_text(json.dumps(results))
    (problem,) = verify_run(run).problems
    assert "cannot be computed again" in problem


def test_keys_that_hash_nothing(tmp_path: Path) -> None:
    """With an emptied key whoever has a redacted report could test a guess of an id."""
    ids = np.array(["a", "b"])
    first = keyed_ids(tmp_path, ids)
    key = (tmp_path / KEY).read_bytes()
    for spoiled in (b"", key[:-1], key + b"x"):
        (tmp_path / KEY).write_bytes(spoiled)
        with pytest.raises(CorruptBankError, match=r"redaction\.key is damaged"):
            keyed_ids(tmp_path, ids)
    (tmp_path / KEY).write_bytes(key)
    assert (keyed_ids(tmp_path, ids) == first).all()
    (tmp_path / KEY).unlink()
    (tmp_path / KEY).mkdir()
    with pytest.raises(CorruptBankError, match=r"redaction\.key cannot be read"):
        keyed_ids(tmp_path, ids)


VERIFY_EACH = """
import sys
from leakscope.cli.main import main
for run in sys.argv[1:]:
    sys.argv = ["leakscope", "verify", run]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    print(f"exit code {code}", flush=True)
"""


def test_folders_within_folders_are_not_walked_through(run: Path) -> None:
    """A thousand of them would end the process."""
    (run / "signals" / "/".join("d" * 60)).mkdir(parents=True)
    with pytest.raises(StorageError, match="folders within folders, 40 deep"):
        verify_run(run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_is_no_file_is_refused_and_not_read_forever(run: Path, tmp_path: Path, kind: str) -> None:
    """A pipe that nobody writes to never begins, a device may never end."""
    names = ("run.json", "results.json", "identity.json", "manifest.json", "design.npy")
    spoiled = [Path(shutil.copytree(run, tmp_path / f"without-{number}")) for number in range(len(names))]
    for name, copy in zip(names, spoiled, strict=True):
        (copy / name).unlink()
        if kind == "pipe":
            os.mkfifo(copy / name)
        else:
            (copy / name).symlink_to("/dev/zero")
    done = subprocess.run(
        [sys.executable, "-c", VERIFY_EACH, *map(str, spoiled)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    *printed, last = re.split(r"exit code (\d)\n", done.stdout)
    assert (len(printed), last) == (2 * len(names), "")
    for name, text, code in zip(names, printed[::2], printed[1::2], strict=True):
        assert code in "123" and name in text, text
