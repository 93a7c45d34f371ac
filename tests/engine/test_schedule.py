"""The loop of all engines with other processes, on a crew that is made up: bounds, losses, progress."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.engine import local, worker
from leakscope.engine.schedule import _ATTEMPTS, Outcome, run_units
from leakscope.engine.worker import Trained, Unit, joined, units_of
from leakscope.errors import TrainingError
from leakscope.recipe import FunctionRecipe
from tests.engine.functions import centroids


class MadeUpCrew:
    """Units end last in, first out; each is lost as often as `losses` says, at half of its way."""

    def __init__(self, size: int, losses: dict[Unit, int]) -> None:
        self.size, self.losses, self.most = size, Counter(losses), 0
        self.flying: list[Unit] = []

    def room(self) -> int:
        return self.size

    def give(self, unit: Unit) -> None:
        self.flying.append(unit)
        self.most = max(self.most, len(self.flying))

    def ended(self, seconds: float) -> list[Outcome]:
        unit = self.flying.pop()
        if self.losses[unit]:
            self.losses[unit] -= 1
            return [Outcome(unit, None, "made up")]
        return [Outcome(unit, trained(unit))]

    def done(self) -> Iterable[tuple[Unit, float]]:
        return [(unit, len(unit.models) / 2) for unit in self.flying]


def trained(unit: Unit) -> Trained:
    values = np.array(unit.models, dtype=np.float32)[:, None, None]
    return Trained(
        {"loss": values}, {str(m): 1 for m in unit.models if m % 3 == 0}, "x", "", None, 1.0, "cpu"
    )


@given(
    blocks=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    apart=st.booleans(),
    size=st.integers(1, 5),
    losses=st.lists(st.integers(0, _ATTEMPTS - 1), min_size=32, max_size=32),
)
def test_every_unit_ends_once_whatever_is_lost(
    blocks: list[int], apart: bool, size: int, losses: list[int]
) -> None:
    starts = np.cumsum([0, *blocks])
    units = [u for b, n in enumerate(blocks) for u in units_of(b, np.arange(starts[b], starts[b] + n), apart)]
    crew = MadeUpCrew(size, dict(zip(units, losses, strict=False)))
    done: list[float] = []
    ended = list(run_units(crew, units, done.append))
    assert sorted(unit for unit, _ in ended) == units
    assert crew.most <= size
    assert min(done) > 0
    assert sum(done) == pytest.approx(sum(blocks))


def test_a_unit_lost_too_often_ends_the_run() -> None:
    units = [Unit(0, (0, 1)), Unit(1, (2,))]
    with pytest.raises(TrainingError) as error:
        list(run_units(MadeUpCrew(2, {units[0]: _ATTEMPTS}), units, lambda _: None))
    assert "models 0 to 1 could not be trained: the process was lost 4 times (made up)" in str(error.value)
    assert "The same command goes on where this run stopped" in str(error.value)


def test_units_of_a_block_join_in_the_order_of_its_models() -> None:
    units = units_of(0, np.arange(5), apart=True)
    whole = trained(units_of(0, np.arange(5), apart=False)[0])
    again = joined([trained(unit) for unit in units])
    np.testing.assert_array_equal(again.signals["loss"], whole.signals["loss"])
    assert again.lost == whole.lost == {"0": 1, "3": 1}
    assert again.seconds == 5.0


@pytest.mark.parametrize(
    ("n_cores", "n_models", "torch_threads", "expected"),
    [(8, 64, 8, 1), (8, 2, 8, 4), (8, 3, 8, 2), (8, 2, 1, 1), (1, 64, 1, 1)],
)
def test_models_side_by_side_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, n_cores: int, n_models: int, torch_threads: int, expected: int
) -> None:
    monkeypatch.setattr(local, "cores", lambda: n_cores)
    monkeypatch.setattr("torch.get_num_threads", lambda: torch_threads)
    assert local.threads_apart(n_models) == expected


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
