"""A bank on disk: whole blocks or none, resumed from anywhere, finished only when its manifest says so."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.bank.bank import Bank
from leakscope.bank.identity import Identity
from leakscope.bank.run_folder import differences, to_jsonable
from leakscope.errors import BankMismatchError, CorruptBankError, InputError, StorageError
from tests.bank.small_bank import (
    ALL_SUBSETS,
    EPOCHS,
    IDENTITY,
    LABELS,
    N_BLOCKS,
    N_COLUMNS,
    N_MODELS,
    SIGNALS,
    add,
    answers,
    columns_design,
    complete,
    contents,
    create,
    design,
)


def test_a_finished_bank_holds_what_the_models_said(tmp_path: Path) -> None:
    assert complete(tmp_path) == [0, 1, 2]
    bank = Bank.open(tmp_path)
    signals = bank.signals()
    for name, expected in answers(range(N_MODELS)).items():
        assert signals.arrays[name].dtype == expected.dtype
        np.testing.assert_array_equal(signals.arrays[name], expected)
    assert signals.epochs == EPOCHS
    np.testing.assert_array_equal(signals.labels, LABELS)
    np.testing.assert_array_equal(bank.design().in_mask, design().in_mask)
    assert bank.design().columns is None
    assert bank.diverged == {4: 2}
    assert bank.damage() == []
    assert [notes.diverged_models for notes in bank.manifest.blocks] == [{}, {4: 2}, {}]
    assert not (tmp_path / "blocks").exists()


def test_signals_are_plain_npy_files_and_memory_mapped(tmp_path: Path) -> None:
    complete(tmp_path)
    for name, array in Bank.open(tmp_path).signals().arrays.items():
        assert isinstance(array, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        np.testing.assert_array_equal(np.load(tmp_path / "signals" / f"{name}.npy"), array)


@pytest.mark.parametrize("there", ALL_SUBSETS)
def test_resumes_after_any_subset_of_blocks(tmp_path: Path, there: tuple[int, ...]) -> None:
    complete(tmp_path / "undisturbed")
    add(create(tmp_path / "resumed"), there)
    assert complete(tmp_path / "resumed") == [b for b in range(N_BLOCKS) if b not in there]
    assert contents(tmp_path / "resumed") == contents(tmp_path / "undisturbed")


def test_a_finished_bank_is_not_made_again(tmp_path: Path) -> None:
    complete(tmp_path)
    before = (tmp_path / "manifest.json").read_bytes()
    assert complete(tmp_path) == []
    assert (tmp_path / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("n_written", range(len(SIGNALS) + 2))
def test_a_block_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_written: int
) -> None:
    bank = create(tmp_path)
    add(bank, [0])
    before = contents(tmp_path)
    with monkeypatch.context() as patched:
        _fail_at_replacement(patched, n_written)
        with pytest.raises(StorageError):
            add(bank, [1])
    assert contents(tmp_path) == before
    assert bank.pending() == [1, 2]
    assert not bank.is_complete


@pytest.mark.parametrize("n_written", range(len(SIGNALS) + 1))
def test_the_manifest_is_written_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_written: int
) -> None:
    bank = create(tmp_path / "failed")
    add(bank, range(N_BLOCKS))
    with monkeypatch.context() as patched:
        replaced = _fail_at_replacement(patched, n_written)
        with pytest.raises(StorageError, match="disk is full"):
            bank.finish()
    assert replaced == [f"{name}.npy" for name in SIGNALS[:n_written]]
    assert not bank.is_complete
    with pytest.raises(InputError, match="unfinished bank; run the command that made it again"):
        Bank.open(tmp_path / "failed")
    assert complete(tmp_path / "failed") == []  # all blocks are kept until the manifest is there
    complete(tmp_path / "undisturbed")
    assert contents(tmp_path / "failed") == contents(tmp_path / "undisturbed")


def test_the_order_of_a_finish_is_signals_then_manifest_then_blocks_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = create(tmp_path)
    add(bank, range(N_BLOCKS))

    def kill(*_: object, **__: object) -> None:
        assert bank.is_complete
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", kill)
        with pytest.raises(KeyboardInterrupt):
            bank.finish()
    assert (tmp_path / "blocks").exists()
    assert complete(tmp_path) == []
    assert Bank.open(tmp_path).damage() == []


def test_a_bank_with_a_missing_block_cannot_be_finished(tmp_path: Path) -> None:
    bank = create(tmp_path)
    add(bank, [0, 2])
    with pytest.raises(CorruptBankError, match="blocks/00001 is missing or damaged; run the same command"):
        bank.finish()
    assert not bank.is_complete


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    add(create(tmp_path), [0])
    before = contents(tmp_path)
    (tmp_path / ".design.npy.leakscope-tmp-77").write_bytes(b"half")
    half = tmp_path / "blocks" / ".00001.leakscope-tmp-77"
    half.mkdir()
    (half / ".loss.npy.leakscope-tmp-77").write_bytes(b"half")
    (half / "logits.npy").write_bytes(b"half")
    create(tmp_path)
    assert contents(tmp_path) == before
    assert not half.exists()


def _changed(field: str, **changes: Any) -> dict[str, Any]:
    before = getattr(IDENTITY, field)
    return {field: {**before, **changes} if isinstance(before, dict) else replace(before, **changes)}


IDENTITY_CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "records": (_changed("records", sha256="ee" * 32), "records.sha256 is abababababab… there"),
    "records' name": (_changed("records", name="b"), "records.name is made up there, b now"),
    "design": (_changed("design", sha256="ee" * 32), "design.sha256 is cdcdcdcdcdcd… there"),
    "number of models": (_changed("design", models=9), "design.models is 7 there, 9 now"),
    "recipe": (_changed("recipe", lr=0.2), "recipe.lr is 0.1 there, 0.2 now"),
    "net option": (
        _changed("recipe", net_options={"width": 9}),
        "recipe.net_options.width is 8 there, 9 now",
    ),
    "new field": (_changed("recipe", momentum=0.9), "recipe.momentum is None there, 0.9 now"),
    "seed": ({"seed": 4}, "seed is 3 there, 4 now"),
    "signals": ({"signals": ("loss",)}, "signals is ['correct', 'logits', 'loss'] there, ['loss'] now"),
    "block size": ({"block_size": 4}, "block_size is 3 there, 4 now"),
    "format": ({"format": 99}, f"format is {IDENTITY.format} there, 99 now"),
}


@pytest.mark.parametrize(("changes", "named"), IDENTITY_CHANGES.values(), ids=IDENTITY_CHANGES)
@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "unfinished"])
def test_another_bank_is_refused_and_what_differs_named(
    tmp_path: Path, changes: dict[str, Any], named: str, is_finished: bool
) -> None:
    if is_finished:
        complete(tmp_path)
    else:
        add(create(tmp_path), [0])
    before = contents(tmp_path)
    with pytest.raises(BankMismatchError) as refused:
        create(tmp_path, **changes)
    assert named in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert "choose another folder with --out, or remove this one" in str(refused.value)
    assert contents(tmp_path) == before


def test_differences_of_equal_data_are_none() -> None:
    assert differences(to_jsonable(IDENTITY), json.loads(json.dumps(to_jsonable(IDENTITY)))) == []


@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "unfinished"])
def test_models_without_identity_are_never_taken_for_another_banks(tmp_path: Path, is_finished: bool) -> None:
    if is_finished:
        complete(tmp_path)
    else:
        add(create(tmp_path), [0])
    (tmp_path / "identity.json").unlink()
    before = contents(tmp_path)
    with pytest.raises(BankMismatchError, match=r"its models have no identity\.json"):
        create(tmp_path, seed=4)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["identity.json", "design.npy", "labels.npy", "columns.npy"])
@pytest.mark.parametrize("is_there", [True, False], ids=["flipped", "missing"])
def test_a_damaged_file_of_a_finished_bank_is_put_back(tmp_path: Path, name: str, is_there: bool) -> None:
    complete(tmp_path, _create_with_columns)
    before = contents(tmp_path)
    if is_there:
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-5] + b"0 1}\n")
    else:
        (tmp_path / name).unlink()
    assert complete(tmp_path, _create_with_columns) == []
    assert contents(tmp_path) == before


def test_columns_say_which_records_each_model_was_asked_about(tmp_path: Path) -> None:
    complete(tmp_path, _create_with_columns)
    bank = Bank.open(tmp_path)
    expected = columns_design()
    assert expected.columns is not None
    stored = bank.design()
    assert stored.columns is not None
    np.testing.assert_array_equal(stored.columns, expected.columns)
    np.testing.assert_array_equal(stored.in_mask, expected.in_mask)
    assert stored.digest == expected.digest
    labels = bank.signals().labels
    assert labels.shape == (N_MODELS, N_COLUMNS)
    for model in range(N_MODELS):
        np.testing.assert_array_equal(labels[model], _TEN_LABELS[expected.columns[model]])


def test_columns_of_a_run_that_never_got_an_identity_are_dropped(tmp_path: Path) -> None:
    _create_with_columns(tmp_path)
    (tmp_path / "identity.json").unlink()
    complete(tmp_path)
    assert Bank.open(tmp_path).design().columns is None


def test_a_folder_without_a_bank_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no bank"):
        Bank.open(tmp_path)


@pytest.mark.parametrize("field", ["diverged_models", "signals", "files", "blocks", "sha256", "created"])
def test_a_changed_manifest_is_noticed(tmp_path: Path, field: str) -> None:
    complete(tmp_path)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[field] = {"diverged_models": {}}.get(field, "changed")
    path.write_text(json.dumps(manifest))
    with pytest.raises(CorruptBankError, match=r"manifest\.json does not match its own checksum"):
        Bank.open(tmp_path).damage()
    with pytest.raises(CorruptBankError, match="remove it to train the bank anew"):
        create(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'"text"'])
def test_an_unreadable_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    complete(tmp_path)
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(CorruptBankError, match=r"manifest\.json is damaged"):
        Bank.open(tmp_path).damage()


_TEN_LABELS = np.arange(10)


def _create_with_columns(folder: Path) -> Bank:
    return Bank.create(folder, _columns_identity(), columns_design(), _TEN_LABELS)


def _columns_identity() -> Identity:
    return replace(IDENTITY, design=replace(IDENTITY.design, sha256=columns_design().digest))


def _fail_at_replacement(monkeypatch: pytest.MonkeyPatch, n_allowed: int) -> list[str]:
    """The disk is full from the n-th rename on; returns the list of names renamed to so far."""
    replaced: list[str] = []
    original = Path.replace

    def replace_or_fail(self: Path, target: Path) -> Path:
        if len(replaced) >= n_allowed:
            raise OSError(errno.ENOSPC, "No space left on device")
        replaced.append(target.name)
        return original(self, target)

    monkeypatch.setattr(Path, "replace", replace_or_fail)
    return replaced
