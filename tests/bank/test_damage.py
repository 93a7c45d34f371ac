"""Anything that happens to a bank's bytes is named, and costs no more than the block it happened to."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from leakscope.bank.bank import Bank
from tests.bank.small_bank import (
    BLOCK_SIZE,
    N_BLOCKS,
    N_MODELS,
    SIGNALS,
    add,
    answers,
    complete,
    contents,
    create,
    flip,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    complete(tmp_path / "bank")
    return tmp_path / "bank"


def body_start(path: Path) -> int:
    """Bytes of the header of an `.npy` file."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        return file.tell()


def row_bytes(name: str) -> int:
    row = answers([0])[name]
    return row.nbytes


@pytest.mark.parametrize("block", range(N_BLOCKS))
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("end", ["first", "last"])
def test_a_flipped_byte_is_named_and_only_its_block_made_again(
    folder: Path, name: str, block: int, end: str
) -> None:
    before = contents(folder)
    path = folder / "signals" / f"{name}.npy"
    first, last = block * BLOCK_SIZE, min((block + 1) * BLOCK_SIZE, N_MODELS)
    at = {"first": first * row_bytes(name), "last": last * row_bytes(name) - 1}[end]
    flip(path, body_start(path) + at)

    (damage,) = Bank.open(folder).damage()
    assert damage.file == f"signals/{name}.npy"
    assert damage.block == block
    assert f"block {block} (models {first} to {last - 1})" in str(damage)
    assert complete(folder) == [block]
    assert contents(folder) == before
    assert Bank.open(folder).damage() == []


@pytest.mark.parametrize("name", SIGNALS)
def test_every_byte_of_a_header_counts_and_costs_no_training(folder: Path, name: str) -> None:
    before = contents(folder)
    path = folder / "signals" / f"{name}.npy"
    for at in range(body_start(path)):
        flip(path, at)
        (damage,) = Bank.open(folder).damage()
        assert (damage.file, damage.what, damage.block) == (
            f"signals/{name}.npy",
            "has a damaged header",
            None,
        )
        flip(path, at)
    flip(path, 20)
    assert complete(folder) == []
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("lost_rows", "blocks"), [(0.01, [2]), (1, [2]), (1.5, [1, 2]), (4, [1, 2]), (7, [0, 1, 2])]
)
def test_a_truncated_file_loses_its_last_blocks_only(
    folder: Path, lost_rows: float, blocks: list[int]
) -> None:
    before = contents(folder)
    path = folder / "signals" / "logits.npy"
    n_lost = max(1, int(lost_rows * row_bytes("logits")))
    path.write_bytes(path.read_bytes()[:-n_lost])
    assert [(d.file, d.block) for d in Bank.open(folder).damage()] == [
        ("signals/logits.npy", b) for b in blocks
    ]
    assert complete(folder) == blocks
    assert contents(folder) == before


def test_a_longer_file_is_cut_without_training(folder: Path) -> None:
    before = contents(folder)
    with (folder / "signals" / "loss.npy").open("ab") as file:
        file.write(b"x")
    (damage,) = Bank.open(folder).damage()
    assert str(damage) == "signals/loss.npy: is longer than it should be"
    assert complete(folder) == []
    assert contents(folder) == before


def test_an_emptied_or_missing_signal_is_made_again(folder: Path) -> None:
    before = contents(folder)
    path = folder / "signals" / "loss.npy"
    path.unlink()
    assert [str(d) for d in Bank.open(folder).damage()] == ["signals/loss.npy: is missing"] * N_BLOCKS
    assert complete(folder) == [0, 1, 2]
    assert contents(folder) == before
    path.write_bytes(b"")
    assert [d.block for d in Bank.open(folder).damage()] == [None, 0, 1, 2]
    assert complete(folder) == [0, 1, 2]
    assert contents(folder) == before


def test_damage_in_two_signals_of_one_block_costs_one_block(folder: Path) -> None:
    before = contents(folder)
    for name in ("loss", "logits"):
        path = folder / "signals" / f"{name}.npy"
        flip(path, body_start(path) + BLOCK_SIZE * row_bytes(name))
    assert [(d.file, d.block) for d in Bank.open(folder).damage()] == [
        ("signals/logits.npy", 1),
        ("signals/loss.npy", 1),
    ]
    assert complete(folder) == [1]
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["identity.json", "design.npy", "labels.npy"])
def test_other_files_are_named(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    in_a_value = content.find(b'"sha256": "') + 20  # a flipped bracket would be no JSON
    flip(folder / name, in_a_value if name.endswith(".json") else len(content) // 2)
    assert [str(d) for d in Bank.open(folder).damage()] == [f"{name}: does not match its checksum"]


@pytest.mark.parametrize("name", ["design.npy", "labels.npy"])
def test_other_missing_files_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert [str(d) for d in Bank.open(folder).damage()] == [f"{name}: is missing"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["correct.npy", "logits.npy", "loss.npy", "notes.json", "block.json"])
def test_every_byte_of_a_block_folder_counts(tmp_path: Path, name: str) -> None:
    """Flipping it either makes the block pending, or changes nothing (white space in the checksums)."""
    complete(tmp_path / "undisturbed")
    bank = create(tmp_path / "bank")
    add(bank, range(N_BLOCKS))
    path = tmp_path / "bank" / "blocks" / "00001" / name
    n_noticed = 0
    for at in range(path.stat().st_size):
        flip(path, at)
        pending, damage = bank.pending(), bank.damage()
        assert pending in ([], [1])
        assert {d.block for d in damage} == set(pending)
        assert all(d.file.startswith("blocks/00001/") for d in damage)
        n_noticed += bool(pending)
        flip(path, at)
    assert n_noticed == path.stat().st_size or (name == "block.json" and n_noticed > 4 * 64)
    assert bank.pending() == []
    flip(path, path.stat().st_size // 2)
    assert complete(tmp_path / "bank") == [1]
    assert contents(tmp_path / "bank") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("content", [b"", b"x", b"\x93NUMPY\x01\x00\x76\x00{"])
@pytest.mark.parametrize("name", ["loss.npy", "notes.json", "block.json"])
def test_a_cut_file_of_a_block_folder_is_made_again(tmp_path: Path, name: str, content: bytes) -> None:
    add(create(tmp_path / "bank"), range(N_BLOCKS))
    (tmp_path / "bank" / "blocks" / "00002" / name).write_bytes(content)
    assert complete(tmp_path / "bank") == [2]
    complete(tmp_path / "undisturbed")
    assert contents(tmp_path / "bank") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("name", ["correct.npy", "notes.json", "block.json"])
def test_a_missing_file_of_a_block_folder_is_made_again(tmp_path: Path, name: str) -> None:
    bank = create(tmp_path)
    add(bank, range(N_BLOCKS))
    (tmp_path / "blocks" / "00000" / name).unlink()
    assert bank.damage() != []
    assert complete(tmp_path) == [0]


def test_rests_of_block_folders_beside_a_finished_bank_do_no_harm(folder: Path, tmp_path: Path) -> None:
    """A run killed while it removed them leaves some whole and some half; then something else breaks."""
    before = contents(folder)
    unfinished = tmp_path / "unfinished"
    add(create(unfinished), range(N_BLOCKS))
    shutil.copytree(unfinished / "blocks", folder / "blocks")
    (folder / "blocks" / "00000" / "loss.npy").unlink()
    flip(folder / "blocks" / "00001" / "logits.npy", 200)
    with (folder / "signals" / "loss.npy").open("ab") as file:
        file.write(b"x")
    assert complete(folder) == []
    assert contents(folder) == before
    path = folder / "signals" / "loss.npy"
    flip(path, body_start(path))
    assert complete(folder) == [0]
    assert contents(folder) == before


def test_a_repair_that_is_itself_interrupted_goes_on(folder: Path) -> None:
    before = contents(folder)
    for name in SIGNALS:
        path = folder / "signals" / f"{name}.npy"
        flip(path, body_start(path))
        flip(path, path.stat().st_size - 1)
    bank = create(folder)
    assert bank.pending() == [0, 2]
    add(bank, [2])
    assert create(folder).pending() == [0]
    assert complete(folder) == [0]
    assert contents(folder) == before
