"""Damage that fault injection found a run helpless against, each with what it does now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leakscope.bank.bank import Bank
from leakscope.bank.damage import SEAL, check_seal, write_seal
from leakscope.bank.run_folder import locked_run_folder, read_run
from leakscope.errors import BankMismatchError, CorruptBankError, StorageError
from tests.bank.small_bank import complete, contents, create
from tests.claims import claim


def test_a_damaged_run_file_is_written_anew(tmp_path: Path) -> None:
    claim(tmp_path, "study", {"seed": 1})
    before = (tmp_path / "run.json").read_bytes()
    for content in (
        b"",
        b"{",
        before[:20],
        b"\x00" * len(before),
        b"[" * 100_000,
        b'{"kind": 3, "config": {}}',
    ):
        (tmp_path / "run.json").write_bytes(content)
        with pytest.raises(CorruptBankError, match="damaged"):
            read_run(tmp_path)
        claim(tmp_path, "study", {"seed": 1})
        assert (tmp_path / "run.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 40, b"[]"])
def test_a_damaged_identity_of_a_bank_without_models_is_written_anew(tmp_path: Path, content: bytes) -> None:
    create(tmp_path)
    before = (tmp_path / "identity.json").read_bytes()
    (tmp_path / "identity.json").write_bytes(content)
    create(tmp_path)
    assert (tmp_path / "identity.json").read_bytes() == before


def test_models_that_nobody_can_say_the_name_of_are_refused(tmp_path: Path) -> None:
    bank = create(tmp_path)
    bank.folder.joinpath("blocks", "00000").mkdir(parents=True)
    (tmp_path / "identity.json").write_bytes(b"{")
    with pytest.raises(
        BankMismatchError, match=r"no identity\.json that says what they are.*or remove this one"
    ):
        create(tmp_path)


def test_blocks_that_a_kill_left_after_the_end_are_removed(tmp_path: Path) -> None:
    complete(tmp_path / "bank")
    expected = contents(tmp_path / "bank")
    bank = create(tmp_path / "unfinished")
    for block in range(3):
        shutil.copytree(tmp_path / "bank" / "signals", bank.folder / "blocks" / f"{block:05d}")
    shutil.copytree(bank.folder / "blocks", tmp_path / "bank" / "blocks")
    create(tmp_path / "bank")
    assert contents(tmp_path / "bank") == expected


def test_a_link_in_a_run_folder_is_refused_before_anything_is_written_through_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.npy").write_text("mine")
    run = tmp_path / "run"
    claim(run, "study", {})
    (run / "signals").symlink_to(outside)
    with pytest.raises(StorageError, match="signals is a link"), locked_run_folder(run, "study", {}):
        pass
    with pytest.raises(StorageError, match="signals is a link"):
        create(run)
    assert [path.name for path in outside.iterdir()] == ["mine.npy"]
    (tmp_path / "other").symlink_to(run)  # the folder itself may be one: the user named it
    (run / "signals").unlink()
    claim(tmp_path / "other", "study", {})


def test_a_sealed_folder_names_what_is_missing_or_changed(tmp_path: Path) -> None:
    array, remedy = tmp_path / "a" / "x.npy", "; run the same command again"
    array.parent.mkdir()
    array.write_bytes(b"1")
    with pytest.raises(CorruptBankError, match=rf"sha256\.json is missing{remedy}"):
        check_seal(tmp_path)
    write_seal(tmp_path)
    check_seal(tmp_path)
    array.write_bytes(b"2")
    with pytest.raises(CorruptBankError, match=rf"x\.npy does not match its checksum{remedy}"):
        check_seal(tmp_path)
    array.unlink()
    with pytest.raises(CorruptBankError, match=rf"x\.npy is missing{remedy}"):
        check_seal(tmp_path)
    (tmp_path / SEAL).write_bytes(b"{")
    with pytest.raises(CorruptBankError, match=rf"sha256\.json is damaged.*{remedy}"):
        check_seal(tmp_path)


def test_a_bank_of_a_million_million_models_is_damaged_not_counted(tmp_path: Path) -> None:
    complete(tmp_path)
    path = tmp_path / "identity.json"
    path.write_text(path.read_text().replace('"models": 7', '"models": 1000000000000'))
    with pytest.raises(CorruptBankError, match=r"identity\.json is damaged \(design\.models"):
        Bank(tmp_path)
