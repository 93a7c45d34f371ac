"""Merging banks: every model once, in order, checked while copied; killed anywhere; or refused with why."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.array_types import AnyArray, IntArray
from leakscope.bank.bank import Bank
from leakscope.bank.identity import FORMAT, DesignIdentity, Identity, RecordsIdentity, parse_identity
from leakscope.bank.manifest import BlockNotes, Provenance
from leakscope.bank.merge import plan_merge, write_merge
from leakscope.bank.run_folder import to_jsonable
from leakscope.design import make_design
from leakscope.errors import CorruptBankError, InputError, LeakscopeError
from leakscope.types import Design
from tests.bank.small_bank import contents, flip

N_RECORDS, EPOCHS, BLOCK_SIZE = 12, (2, 4), 3
SIGNALS = ("correct", "loss")
LABELS = np.arange(N_RECORDS) % 3
N_BLOCKS = 3
SUBSETS = [subset for n in range(N_BLOCKS + 1) for subset in itertools.combinations(range(N_BLOCKS), n)]


def answers(seed: int, models: IntArray) -> dict[str, AnyArray]:
    """What the models of one seed "said": a function of (seed, model) alone."""
    loss = np.stack([np.random.default_rng([seed, m]).random((len(EPOCHS), N_RECORDS)) for m in models])
    return {"correct": loss < 0.5, "loss": loss.astype(np.float32)}


def design_of(seed: int, n_models: int, own_columns: bool = False) -> Design:
    in_mask = make_design("bernoulli", n_models, N_RECORDS, seed).in_mask
    columns = np.stack([np.random.default_rng([seed, m]).permutation(N_RECORDS) for m in range(n_models)])
    return Design(in_mask, columns if own_columns else None)


def identity_of(seed: int, design: Design, **changes: Any) -> Identity:
    identity = Identity(
        records=RecordsIdentity("made up", N_RECORDS, "ab" * 32),
        design=DesignIdentity.of(design),
        recipe={"lr": 0.1, "evaluated_epochs": list(EPOCHS)},
        seed=seed,
        signals=SIGNALS,
        block_size=BLOCK_SIZE,
    )
    return replace(identity, **changes)


def bank_of(
    folder: Path,
    seed: int,
    n_models: int = 7,
    blocks: Sequence[int] | None = None,
    own_columns: bool = False,
    **changes: Any,
) -> Path:
    """A bank whose model 4 diverges at epoch 2; unfinished when not all blocks are listed."""
    design = design_of(seed, n_models, own_columns)
    bank = Bank.create(folder, identity_of(seed, design, **changes), design, LABELS)
    for block in bank.pending() if blocks is None else blocks:
        models = bank.blocks[block]
        signals = {name: answers(seed, models)[name] for name in bank.identity.signals}
        bank.add_block(block, signals, BlockNotes("none", diverged_models={4: 2} if 4 in models else {}))
    if not bank.is_complete and not bank.pending():
        bank.finish(Provenance(device="cpu"))
    return folder


def merged(folder: Path, *parts: Path) -> Bank:
    return write_merge(plan_merge(parts), folder)


def everything_under(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process, unlike a power cut, loses nothing it has written; flushing is what takes time."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Seeds 0, 1 and 2 with 7 (blocks of 3, 3, 1), 4 (3, 1) and 3 models."""
    return tuple(bank_of(tmp_path / f"part{seed}", seed, n) for seed, n in ((0, 7), (1, 4), (2, 3)))  # type: ignore[return-value]


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


@pytest.mark.parametrize("first", SUBSETS)
@pytest.mark.parametrize("second", SUBSETS)
def test_copies_of_one_bank_give_the_union_of_their_blocks(
    tmp_path: Path, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    a = bank_of(tmp_path / "a", 0, blocks=first)
    b = bank_of(tmp_path / "b", 0, blocks=second)
    if len(first) == len(second) == N_BLOCKS:
        with pytest.raises(InputError, match=r"are the same bank \(seed 0\), each with all of its models"):
            plan_merge([a, b])
        return
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


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "records": ({"records": RecordsIdentity("b", N_RECORDS, "cd" * 32)}, "records.sha256 is"),
    "recipe": (
        {"recipe": {"lr": 0.2, "evaluated_epochs": [2, 4]}},
        "recipe.lr is 0.1 there, 0.2 here); merge banks of the same records, recipe and signals",
    ),
    "epochs": (
        {"recipe": {"lr": 0.1, "evaluated_epochs": [1, 4]}},
        "recipe.evaluated_epochs is [2, 4] there, [1, 4] here",
    ),
    "signals": ({"signals": ("loss",)}, "signals is ['correct', 'loss'] there, ['loss'] here"),
    "columns": (
        {"own_columns": True},
        "each model is queried about is all records there, its own records here",
    ),
    "seed": ({"seed": 0}, "share the seed 0, so their models start alike"),
    "unfinished": ({"blocks": [0]}, "holds an unfinished bank; run the command that made it"),
}


@pytest.mark.parametrize(("changes", "named"), REFUSALS.values(), ids=REFUSALS)
def test_what_does_not_fit_is_refused_and_named(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    bank_of(tmp_path / "first", 0)
    bank_of(tmp_path / "other", **{"seed": 1, "n_models": 4, **changes})
    check_refused(tmp_path, ("first", "other"), named, str(tmp_path / "other"))


def test_a_bank_of_another_format_is_refused_and_named(tmp_path: Path) -> None:
    bank_of(tmp_path / "first", 0)
    path = bank_of(tmp_path / "other", 1) / "identity.json"
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'))
    check_refused(tmp_path, ("first", "other"), f"{path} is of a bank of format {FORMAT + 1}")


def check_refused(root: Path, names: Sequence[str], *named: str, out: str = "merged") -> None:
    before = everything_under(root)
    with pytest.raises(InputError) as refused:
        merged(root / out, *(root / name for name in names))
    assert all(part in str(refused.value) for part in named), refused.value
    assert everything_under(root) == before


def test_models_are_never_counted_twice(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    shutil.copytree(parts[0], tmp_path / "copy")
    merged(tmp_path / "pair", *parts[:2])
    check_refused(tmp_path, ("part0", "part0"), "is named twice")
    check_refused(tmp_path, ("part0", "pair/../part0"), "is named twice")
    check_refused(tmp_path, ("part0", "copy"), "part0", "copy", "are the same bank (seed 0)", "count twice")
    check_refused(tmp_path, ("part0", "part1", "copy"), "part0", "copy", "hold a bank in common")
    check_refused(tmp_path, ("pair", "part1"), "pair", "part1", "hold a bank in common", "leave one")


def test_one_seed_of_a_prefix_design_would_be_the_same_model_twice(tmp_path: Path) -> None:
    """Why seeds must differ: a longer bernoulli design begins with the shorter one."""
    np.testing.assert_array_equal(design_of(0, 4).in_mask, design_of(0, 7).in_mask[:4])
    bank_of(tmp_path / "short", 0, 4)
    bank_of(tmp_path / "long", 0, 7)
    check_refused(tmp_path, ("short", "long"), "short", "long", "share the seed 0", "a seed of its own")


def test_other_mistakes_are_named(tmp_path: Path, parts: tuple[Path, ...]) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("mine")
    check_refused(tmp_path, ("part0",), "give at least two folders")
    check_refused(tmp_path, ("part0", "nowhere"), "nowhere holds no bank (no identity.json)")
    check_refused(tmp_path, ("part0", "part1"), "is one of the parts", "--out", out="part1")
    check_refused(tmp_path, ("part0", "part1"), "is not empty and holds no bank", "--out", out="thesis")
    check_refused(tmp_path, ("part0", "part1"), "holds a different bank", "--out", out="part2")


def test_signals_of_another_dtype_are_refused(tmp_path: Path) -> None:
    """The file has one header; rows of another width under it would be garbage."""
    bank_of(tmp_path / "first", 0, 3)
    design = design_of(1, 3)
    bank = Bank.create(tmp_path / "wide", identity_of(1, design), design, LABELS)
    signals = {k: v.astype(np.float64) if k == "loss" else v for k, v in answers(1, np.arange(3)).items()}
    bank.add_block(0, signals)
    bank.finish()
    check_refused(tmp_path, ("first", "wide"), "wide", "store their signals differently", "<f4", "<f8")


def damage_rows(name: str, at: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "signals" / name
        flip(path, 128 + int(at * (path.stat().st_size - 128)))

    return damage


def cut(folder: Path) -> None:
    path = folder / "signals" / "loss.npy"
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "first block": (damage_rows("correct.npy", 0.0), "signals/correct.npy: block 0 (models 0 to 2) does not"),
    "last block": (damage_rows("loss.npy", 0.999), "signals/loss.npy: block 2 (models 6 to 6) does not"),
    "cut": (cut, "signals/loss.npy: block 2 is cut off or missing"),
    "missing": (lambda folder: (folder / "signals" / "loss.npy").unlink(), "loss.npy: block 0 is cut off"),
    "design": (lambda folder: flip(folder / "design.npy", -1), "design.npy: does not match its checksum"),
    "labels": (lambda folder: (folder / "labels.npy").unlink(), "labels.npy: is missing"),
    "identity": (lambda folder: flip(folder / "identity.json", 40), "identity.json"),
    "manifest": (lambda folder: flip(folder / "manifest.json", 40), "manifest.json"),
}


@pytest.mark.parametrize(("damage", "named"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_part_is_refused_and_named(
    tmp_path: Path, parts: tuple[Path, ...], damage: Callable[[Path], None], named: str
) -> None:
    shutil.copytree(parts[0], tmp_path / "whole")
    damage(parts[0])
    with pytest.raises(CorruptBankError) as refused:
        merged(tmp_path / "merged", parts[1], parts[0])
    assert str(parts[0]) in str(refused.value)
    assert named in str(refused.value)
    assert not (tmp_path / "merged" / "manifest.json").exists()
    shutil.rmtree(parts[0])
    (tmp_path / "whole").rename(parts[0])  # repaired: the same merge goes on
    merged(tmp_path / "merged", parts[1], parts[0])
    assert contents(tmp_path / "merged") == contents(
        merged(tmp_path / "undisturbed", parts[1], parts[0]).folder
    )


@pytest.mark.parametrize("name", ["blocks/00001/loss.npy", "blocks/00001/notes.json", "design.npy"])
def test_a_damaged_unfinished_copy_is_refused_and_named(tmp_path: Path, name: str) -> None:
    a, b = bank_of(tmp_path / "a", 0, blocks=[0]), bank_of(tmp_path / "b", 0, blocks=[1])
    flip(b / name, -1 if name.endswith("npy") else 5)
    with pytest.raises(CorruptBankError) as refused:
        merged(tmp_path / "merged", a, b)
    assert str(b) in str(refused.value)
    assert Path(name).name in str(refused.value)


def test_copies_with_other_labels_are_refused(tmp_path: Path) -> None:
    """Labels of an unfinished bank have no checksum; another copy's show the damage."""
    a, b = bank_of(tmp_path / "a", 0, blocks=[0]), bank_of(tmp_path / "b", 0, blocks=[1])
    flip(b / "labels.npy", -8)
    with pytest.raises(CorruptBankError, match=r"b: labels\.npy differs from that of"):
        plan_merge([a, b])


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
    with pytest.raises(LeakscopeError, match="is damaged \\(sead: Unexpected"):
        parse_identity({**stored, "sead": 1}, tmp_path)
