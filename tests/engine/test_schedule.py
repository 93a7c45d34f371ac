"""The loop of all engines with other processes, on a pool that is made up: bounds, failures, progress."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.bank.manifest import BlockNotes
from leakscope.bank.parts import Part, joined
from leakscope.engine import local, worker
from leakscope.engine.schedule import MAX_ATTEMPTS, Outcome, run_units
from leakscope.engine.worker import TrainedUnit, Unit, units_of
from leakscope.errors import TrainingError
from leakscope.recipe import FunctionRecipe
from tests.engine.functions import centroids


class MadeUpPool:
    """Units end last in, first out; each fails as often as `failures` says, half done."""

    def __init__(self, size: int, failures: dict[Unit, int]) -> None:
        self.size, self.failures, self.most = size, Counter(failures), 0
        self.flying: list[Unit] = []

    def capacity(self) -> int:
        return self.size

    def submit(self, unit: Unit) -> None:
        self.flying.append(unit)
        self.most = max(self.most, len(self.flying))

    def completed(self, seconds: float) -> list[Outcome]:
        unit = self.flying.pop()
        if self.failures[unit]:
            self.failures[unit] -= 1
            return [Outcome(unit, None, "made up")]
        return [Outcome(unit, trained(unit))]

    def models_done(self) -> Iterable[tuple[Unit, float]]:
        return [(unit, len(unit.models) / 2) for unit in self.flying]


def trained(unit: Unit) -> TrainedUnit:
    values = np.array(unit.models, dtype=np.float32)[:, None, None]
    diverged = {m: 1 for m in unit.models if m % 3 == 0}
    return TrainedUnit({"loss": values}, BlockNotes("x", "", 1.0, diverged), None, "cpu")


@given(
    blocks=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    one_per_model=st.booleans(),
    size=st.integers(1, 5),
    failures=st.lists(st.integers(0, MAX_ATTEMPTS - 1), min_size=32, max_size=32),
)
def test_every_unit_ends_once_whatever_fails(
    blocks: list[int], one_per_model: bool, size: int, failures: list[int]
) -> None:
    starts = np.cumsum([0, *blocks])
    units = [
        u
        for b, n in enumerate(blocks)
        for u in units_of(b, np.arange(starts[b], starts[b] + n), one_per_model)
    ]
    pool = MadeUpPool(size, dict(zip(units, failures, strict=False)))
    done: list[float] = []
    ended = list(run_units(pool, units, done.append))
    assert sorted(unit for unit, _ in ended) == units
    assert pool.most <= size
    assert min(done) > 0
    assert sum(done) == pytest.approx(sum(blocks))


def test_a_unit_that_fails_too_often_ends_the_run() -> None:
    units = [Unit(0, (0, 1)), Unit(1, (2,))]
    with pytest.raises(TrainingError) as error:
        list(run_units(MadeUpPool(2, {units[0]: MAX_ATTEMPTS}), units, lambda _: None))
    assert "models 0 to 1 could not be trained: the process was killed 4 times (made up)" in str(error.value)
    assert "Run the same command again to resume" in str(error.value)


def test_units_of_a_block_join_in_the_order_of_its_models() -> None:
    units = units_of(0, range(5), one_per_model=True)
    whole = trained(units_of(0, range(5), one_per_model=False)[0])
    parts = [Part(unit.models, trained(unit).signals, trained(unit).notes) for unit in units]
    again = joined(parts)
    assert again.models == (0, 1, 2, 3, 4)
    np.testing.assert_array_equal(again.signals["loss"], whole.signals["loss"])
    assert again.notes.diverged_models == whole.notes.diverged_models == {0: 1, 3: 1}
    assert again.notes.seconds == 5.0


@pytest.mark.parametrize(
    ("n_cores", "n_models", "torch_threads", "expected"),
    [(8, 64, 8, 1), (8, 2, 8, 4), (8, 3, 8, 2), (8, 2, 1, 1), (1, 64, 1, 1)],
)
def test_models_side_by_side_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, n_cores: int, n_models: int, torch_threads: int, expected: int
) -> None:
    monkeypatch.setattr(local, "cores", lambda: n_cores)
    monkeypatch.setattr("torch.get_num_threads", lambda: torch_threads)
    assert local.threads_per_model(n_models) == expected


def test_threads_are_limited_and_given_back() -> None:
    import torch

    before = torch.get_num_threads()
    with worker.threads_limited(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_function_of_the_script_can_be_sent_but_not_a_lock() -> None:
    offset = 1.0
    assert worker.why_not_sendable(FunctionRecipe(lambda *a: centroids(*a) + offset)) is None
    held = threading.Lock()
    assert "lock" in str(worker.why_not_sendable(FunctionRecipe(lambda *_: held)))
