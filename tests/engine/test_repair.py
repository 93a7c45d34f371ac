"""Damage to a real bank costs the training of the damaged block, and ends with the very same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from leakscope.bank.bank import Bank
from tests.bank.small_bank import flip
from tests.engine.small_population import N_MODELS, complete, contents, count_training, use_blocks_of

BLOCKS = [[0, 1], [2, 3], [4, 5], [6]]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    use_blocks_of(monkeypatch, 2)
    return count_training(monkeypatch)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


DAMAGE: dict[str, tuple[Callable[[Path], None], list[list[int]]]] = {
    "last byte": (lambda path: flip(path, -1), [[6]]),
    "byte of model 2": (lambda path: flip(path, -path_row(path) * (N_MODELS - 2)), [[2, 3]]),
    "header": (lambda path: flip(path, 30), []),
    "truncated": (cut, [[6]]),
    "longer": (lengthen, []),
    "missing": (Path.unlink, BLOCKS),
}


def path_row(path: Path) -> int:
    """Bytes of one model's row."""
    array = np.load(path)
    return int(array[0].nbytes)


@pytest.mark.parametrize(("harm", "expected"), DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("name", ["correct", "log_odds", "loss"])
def test_only_what_is_damaged_is_trained_again(
    tmp_path: Path,
    trained: list[list[int]],
    name: str,
    harm: Callable[[Path], None],
    expected: list[list[int]],
) -> None:
    complete(tmp_path)
    before = contents(tmp_path)
    assert trained == BLOCKS
    trained.clear()

    harm(tmp_path / "signals" / f"{name}.npy")
    assert {d.file for d in Bank.open(tmp_path).damage()} == {f"signals/{name}.npy"}
    done: list[float] = []
    bank = complete(tmp_path, progress=done.append)
    assert trained == expected
    assert done[0] == N_MODELS - sum(len(models) for models in expected)
    assert sum(done) == pytest.approx(N_MODELS)
    assert contents(tmp_path) == before
    assert bank.damage() == []

    trained.clear()
    complete(tmp_path)
    assert trained == []
