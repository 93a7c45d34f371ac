"""A run folder belongs to one run: the same one goes on, any other is refused before it writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.bank.run_folder import read_json, read_run, to_jsonable
from leakscope.errors import BankMismatchError, CorruptBankError, InputError, StorageError
from tests.claims import claim

CONFIG: dict[str, Any] = {"widths": (8, 16), "seed": 42, "nested": {"a": 1.5}}


def test_a_claim_is_kept_and_read_back(tmp_path: Path) -> None:
    claim(tmp_path / "run", "study", CONFIG)
    assert read_run(tmp_path / "run") == ("study", {"widths": [8, 16], "seed": 42, "nested": {"a": 1.5}})
    before = (tmp_path / "run" / "run.json").read_bytes()
    claim(tmp_path / "run", "study", CONFIG)
    assert (tmp_path / "run" / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("kind", "changes", "named"),
    [
        ("audit", {}, "kind is study there, audit now"),
        ("study", {"seed": 43}, "config.seed is 42 there, 43 now"),
        ("study", {"widths": (8,)}, "config.widths is [8, 16] there, [8] now"),
        ("study", {"nested": {"a": 2}}, "config.nested.a is 1.5 there, 2 now"),
    ],
)
def test_another_run_is_refused_and_what_differs_named(
    tmp_path: Path, kind: str, changes: dict[str, Any], named: str
) -> None:
    claim(tmp_path, "study", CONFIG)
    before = (tmp_path / "run.json").read_bytes()
    (tmp_path / "banks" / "first" / "blocks" / "00000").mkdir(parents=True)
    (tmp_path / "banks" / "first" / "blocks" / "00000" / "block.json").write_text("{}")
    with pytest.raises(BankMismatchError) as refused:
        claim(tmp_path, kind, CONFIG | changes)
    assert named in str(refused.value)
    assert "choose another folder with --out" in str(refused.value)
    assert (tmp_path / "run.json").read_bytes() == before
    assert refused.value.exit_code == 2


def test_a_run_that_trained_nothing_makes_room_for_another(tmp_path: Path) -> None:
    claim(tmp_path, "study", CONFIG)
    (tmp_path / "banks" / "first" / "blocks").mkdir(parents=True)
    for name in ("identity.json", "design.npy", "labels.npy"):
        (tmp_path / "banks" / "first" / name).write_text("written before the first model")
    claim(tmp_path, "study", CONFIG | {"seed": 43})
    assert read_run(tmp_path)[1]["seed"] == 43


@pytest.mark.parametrize("name", ["thesis.txt", ".hidden", ".notes.tmp-1", "folder/x"])
def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="is not empty and holds no run; choose another with --out"):
        claim(tmp_path, "study", CONFIG)
    assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / "run.json").exists()


def test_a_run_killed_while_it_claimed_can_start_again(tmp_path: Path) -> None:
    (tmp_path / ".run.json.leakscope-tmp-99").write_text("{")
    claim(tmp_path, "study", CONFIG)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("exists", [False, True])
def test_only_the_owner_can_read_a_run_folder(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "run").mkdir(mode=0o755)
    claim(tmp_path / "run", "study", CONFIG)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    (tmp_path / "run").chmod(0o750)  # the owner's own choice
    claim(tmp_path / "run", "study", CONFIG)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("ours", ["identity.json", "results.json", "population/identity.json"])
def test_a_removed_run_file_is_written_again_like_a_damaged_one(tmp_path: Path, ours: str) -> None:
    claim(tmp_path, "study", CONFIG)
    before = (tmp_path / "run.json").read_bytes()
    (tmp_path / ours).parent.mkdir(exist_ok=True)
    (tmp_path / ours).write_text("{}")
    for harm in (lambda path: path.unlink(), lambda path: path.write_text("{")):
        harm(tmp_path / "run.json")
        claim(tmp_path, "study", CONFIG)
        assert (tmp_path / "run.json").read_bytes() == before


def test_a_folder_of_runs_is_no_run_that_lost_its_run_file(tmp_path: Path) -> None:
    claim(tmp_path / "demo", "study", CONFIG)
    (tmp_path / "demo" / "results.json").write_text("{}")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        claim(tmp_path, "study", CONFIG)
    assert not (tmp_path / "run.json").exists()


def test_a_file_as_run_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="a file is in the way") as error:
        claim(tmp_path / "file", "study", CONFIG)
    assert error.value.exit_code == 2  # it stays in the way
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="no permission to write there"):
            claim(tmp_path / "run", "study", CONFIG)
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run folder \(it has no run\.json\)"):
        read_run(tmp_path)
    with pytest.raises(InputError, match=r"nowhere is not a run folder \(it does not exist\)"):
        read_run(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content", ['{"kind": "study"}', '{"kind": "s", "config": 3}', "{}", "[]", "{", "\x00"]
)
def test_a_damaged_run_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(CorruptBankError, match=r"run\.json is damaged"):
        read_run(tmp_path)


def test_read_json_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.json is missing"):
        read_json(tmp_path / "x.json")


def test_a_json_file_of_a_forgers_size_is_refused_unread(tmp_path: Path) -> None:
    """A sparse file costs whoever sends it nothing, and would fill the memory of whoever reads it."""
    path = tmp_path / "results.json"
    path.write_text('{"a": 1}')
    os.truncate(path, 20 << 30)
    with pytest.raises(
        CorruptBankError, match=r"has 21,474,836,480 bytes, and no run writes more than"
    ) as error:
        read_json(path)
    assert error.value.exit_code == 3 and len(str(error.value).splitlines()) == 1


def test_plain_makes_json_of_arrays_tuples_and_what_is_not_finite() -> None:
    value = {
        1: np.float32(0.5),
        "array": np.array([[1, 2]]),
        "tuple": (np.int64(3), np.bool_(True)),
        "undefined": [float("nan"), np.inf, np.array([np.nan, 1.0])],
        "text": "x",
        "none": None,
    }
    found = to_jsonable(value)
    assert found == {
        "1": 0.5,
        "array": [[1, 2]],
        "tuple": [3, True],
        "undefined": [None, None, [None, 1.0]],
        "text": "x",
        "none": None,
    }
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert type(found["tuple"][0]) is int
