"""Merging banks: every model once, in order, checked while copied; killed anywhere."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.array_types import AnyArray
from leakscope.bank.bank import Bank
from leakscope.bank.identity import parse_identity
from leakscope.bank.merge import plan_merge
from leakscope.bank.run_folder import to_jsonable
from leakscope.design import make_design
from leakscope.errors import CorruptBankError, InputError, LeakscopeError
from tests.bank.merge_parts import (
    EPOCHS,
    LABELS,
    N_RECORDS,
    answers,
    bank_of,
    damage_rows,
    design_of,
    identity_of,
    merged,
)
from tests.bank.small_bank import contents, flip

N_BLOCKS = 3
SUBSETS = [subset for n in range(N_BLOCKS + 1) for subset in itertools.combinations(range(N_BLOCKS), n)]


def test_a_merged_bank_holds_all_models_in_the_order_given(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    merged(tmp_path / "merged", parts[1], parts[0], parts[2])
    bank = Bank.open(tmp_path / "merged")
    order = [(1, 4), (0, 7), (2, 3)]
    for name, found in bank.signals().arrays.items():
        expected = np.concatenate([answers(seed, np.arange(n))[name] for seed, n in order])
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    expected_mask = np.concatenate([design_of(seed, n).in_mask for seed, n in order])
    np.testing.assert_array_equal(bank.design().in_mask, expected_mask)
    assert bank.design().columns is None
    np.testing.assert_array_equal(bank.signals().labels, LABELS)
    assert bank.signals().epochs == EPOCHS
    assert bank.diverged == {4 + 4: 2}  # model 4 of the second part; the others have no model 4
    assert bank.damage() == []
    assert [len(models) for models in bank.blocks] == [3, 1, 3, 3, 1, 3]
    assert not (tmp_path / "merged" / "blocks").exists()


def test_diverged_models_of_every_part_are_renumbered(tmp_path: Path) -> None:
    folders = [bank_of(tmp_path / str(seed), seed, n) for seed, n in ((0, 7), (1, 6), (2, 5))]
    assert merged(tmp_path / "merged", *folders).diverged == {4: 2, 7 + 4: 2, 13 + 4: 2}


def test_models_with_records_of_their_own_keep_them(tmp_path: Path) -> None:
    folders = [bank_of(tmp_path / str(seed), seed, 4, own_columns=True) for seed in (0, 1)]
    stored = merged(tmp_path / "merged", *folders).design().columns
    expected = [design_of(seed, 4, own_columns=True).columns for seed in (0, 1)]
    assert stored is not None
    np.testing.assert_array_equal(stored, np.concatenate([c for c in expected if c is not None]))
    assert Bank.open(tmp_path / "merged").signals().labels.shape == (8, N_RECORDS)


def test_a_merged_banks_identity_names_its_parts(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    stored = merged(tmp_path / "merged", *parts).identity
    assert stored.parts == tuple(identity_of(s, design_of(s, n)).sha256 for s, n in ((0, 7), (1, 4), (2, 3)))
    assert stored.seed == (0, 1, 2)
    assert stored.design.models == 14
    parts_notes = Bank.open(tmp_path / "merged").manifest.parts
    assert [(part.identity, part.device) for part in parts_notes] == [(sha, "cpu") for sha in stored.parts]
    again = merged(tmp_path / "again", *parts)
    assert contents(again.folder) == contents(tmp_path / "merged")
    assert merged(tmp_path / "turned", *parts[::-1]).identity != stored


def test_it_does_not_matter_in_how_many_steps_banks_are_merged(
    tmp_path: Path, parts: tuple[Path, ...]
) -> None:
    a, b, c = parts
    at_once = contents(merged(tmp_path / "abc", a, b, c).folder)
    left = merged(tmp_path / "ab_c", merged(tmp_path / "ab", a, b).folder, c)
    right = merged(tmp_path / "a_bc", a, merged(tmp_path / "bc", b, c).folder)
    assert contents(left.folder) == at_once
    assert contents(right.folder) == at_once


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_listed_blocks_are_neighbours_that_cover_all_models(sizes: list[int]) -> None:
    n_models = sum(sizes)
    identity = identity_of(0, design_of(0, 2))
    identity = replace(identity, design=replace(identity.design, models=n_models), block_size=tuple(sizes))
    assert [len(models) for models in identity.blocks] == sizes
    np.testing.assert_array_equal(np.concatenate(identity.blocks), np.arange(n_models))


def test_two_whole_copies_of_one_bank_are_refused(tmp_path: Path) -> None:
    copies = [bank_of(tmp_path / name, 0) for name in "ab"]
    with pytest.raises(InputError, match=r"are the same bank \(seed 0\), each with all of its models"):
        plan_merge(copies)


@pytest.mark.parametrize(
    ("first", "second"),
    [(a, b) for a, b in itertools.product(SUBSETS, repeat=2) if len(a) + len(b) < 2 * N_BLOCKS],
)
def test_copies_of_one_bank_give_the_union_of_their_blocks(
    tmp_path: Path, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    a = bank_of(tmp_path / "a", 0, blocks=first)
    b = bank_of(tmp_path / "b", 0, blocks=second)
    union = set(first) | set(second)
    bank = merged(tmp_path / "merged", a, b)
    assert bank.is_complete == (len(union) == N_BLOCKS)
    assert bank.is_complete or bank.pending() == [block for block in range(N_BLOCKS) if block not in union]
    assert bank.damage() == []
    bank_of(tmp_path / "merged", 0)  # the ordinary run trains what is missing
    assert contents(tmp_path / "merged") == contents(bank_of(tmp_path / "undisturbed", 0))
    assert Bank.open(tmp_path / "merged").diverged == {4: 2}


def test_a_half_merged_bank_can_itself_be_a_copy(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    merge = plan_merge(parts)
    halves = [Bank.create(tmp_path / name, merge.identity, merge.design, merge.labels) for name in "ab"]
    for block, source in enumerate(merge.sources):
        assert source is not None
        signals, notes = source.bank.read_block(source.block)
        halves[block % 2].add_block(block, signals, replace(notes, diverged_models={}))
    whole = merged(tmp_path / "whole", *(half.folder for half in halves))
    assert whole.is_complete
    expected = contents(merged(tmp_path / "expected", *parts).folder)
    assert contents(whole.folder) == expected


@pytest.mark.slow
def test_a_merge_killed_at_any_rename_goes_on(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    expected = contents(merged(tmp_path / "expected", *parts).folder)
    n_deaths = 0
    for n in itertools.count():
        out = tmp_path / str(n)
        with pytest.MonkeyPatch.context() as patched:
            die_at_rename(patched, n)
            try:
                merged(out, *parts)
                break
            except KeyboardInterrupt:
                n_deaths += 1
                assert not (out / "manifest.json").exists()
                (out / ".loss.npy.leakscope-tmp-77").write_bytes(b"half")
        merged(out, *parts)
        assert contents(out) == expected
        assert Bank.open(out).damage() == []
    assert n_deaths == 3 + 6 * 5 + 3  # bank files; blocks of four files and a folder; signals and manifest


def die_at_rename(patched: pytest.MonkeyPatch, n: int) -> None:
    original, count = Path.replace, itertools.count()

    def replace_or_die(self: Path, target: Path) -> Path:
        if next(count) == n:
            raise KeyboardInterrupt
        return original(self, target)

    patched.setattr(Path, "replace", replace_or_die)


def test_a_damaged_merged_bank_is_repaired_from_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: tuple[Path, ...]
) -> None:
    bank = merged(tmp_path / "merged", *parts)
    before = contents(bank.folder)
    damage_rows("loss.npy", 0.6)(bank.folder)
    (damage,) = bank.damage()
    copied: list[int] = []
    add_block = Bank.add_block

    def counted(self: Bank, block: int, signals: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        copied.append(block)
        add_block(self, block, signals, notes)

    monkeypatch.setattr(Bank, "add_block", counted)
    merged(bank.folder, *parts)
    assert copied == [damage.block]
    assert contents(bank.folder) == before
    merged(bank.folder, *parts)
    assert copied == [damage.block]


def test_damage_that_no_part_can_repair_is_named(tmp_path: Path) -> None:
    a, b = bank_of(tmp_path / "a", 0, blocks=[0]), bank_of(tmp_path / "b", 0, blocks=[1])
    merged(tmp_path / "merged", a, b)
    bank_of(tmp_path / "merged", 0)
    flip(tmp_path / "merged" / "signals" / "loss.npy", -1)
    with pytest.raises(CorruptBankError, match="block 2 is damaged and no part holds it"):
        merged(tmp_path / "merged", a, b)


@pytest.mark.slow
def test_memory_is_that_of_one_block_and_not_of_the_bank(tmp_path: Path) -> None:
    n_columns, n_models, n_epochs = 1_000, 24, 100
    block_bytes = 8 * n_epochs * n_columns  # one model a block
    for seed in (0, 1):
        design = make_design("bernoulli", n_models, n_columns, seed)
        identity = identity_of(seed, design, signals=("loss",), block_size=1)
        bank = Bank.create(tmp_path / str(seed), identity, design, np.arange(n_columns))
        for block in range(n_models):
            bank.add_block(block, {"loss": np.full((1, n_epochs, n_columns), seed + 0.5)})
        bank.finish()
    tracemalloc.start()
    bank = merged(tmp_path / "merged", tmp_path / "0", tmp_path / "1")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bank.is_complete
    assert peak < 8 * block_bytes < 2 * n_models * block_bytes / 5


def test_an_identity_survives_json(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    for identity in (plan_merge(parts).identity, identity_of(0, design_of(0, 7))):
        again = parse_identity(json.loads(json.dumps(to_jsonable(identity))), tmp_path)
        assert again == identity
        assert again.sha256 == identity.sha256


def test_an_identity_with_other_fields_is_damaged(tmp_path: Path) -> None:
    stored = to_jsonable(identity_of(0, design_of(0, 7)))
    with pytest.raises(LeakscopeError, match="is damaged \\(sead: no such field"):
        parse_identity({**stored, "sead": 1}, tmp_path)
