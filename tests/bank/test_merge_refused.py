"""Banks that cannot be merged, or are damaged, are refused with the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.bank.bank import Bank
from leakscope.bank.identity import FORMAT, RecordsIdentity
from leakscope.bank.merge import plan_merge
from leakscope.errors import CorruptBankError, InputError
from tests.bank.merge_parts import (
    LABELS,
    N_RECORDS,
    answers,
    bank_of,
    damage_rows,
    design_of,
    everything_under,
    identity_of,
    merged,
)
from tests.bank.small_bank import contents, flip

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
