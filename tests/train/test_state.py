"""Training that is interrupted at any moment and resumed from its saved state gives the same bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from leakscope.array_types import AnyArray
from leakscope.design import make_design
from leakscope.disk.saved_training import STATES, Saving, last_saved
from leakscope.disk.sealed import read_sealed, write_sealed
from leakscope.privacy.settings import Privacy
from leakscope.randomness import Purpose, generator, skip_float32
from leakscope.recipe import Distillation, Recipe, Treatment
from leakscope.train.block import BlockSignals, Follow
from leakscope.train.compiler import SWITCH
from leakscope.train.loop import inputs_from, train_block
from leakscope.train.state import HAS_OWN_STATE
from leakscope.types import Records

N_MODELS = 3
SECONDS = 3.0
LOST_LOOKS = 12  # at the clock: until a save is due, and while it is saved and read
NOISY = "tests.faults.nets:noisy"


def records(shape: tuple[int, ...] = (5,)) -> Records:
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    features = rng.normal(size=(30, *shape)) + labels.reshape(-1, *(1 for _ in shape))
    return Records(
        features.astype(np.float32), labels, np.arange(30).astype(str), class_names=("a", "b", "c")
    )


FLAT, IMAGES = records(), records((1, 8, 8))
USUAL = Recipe(net_options=(("width", 6),), epochs=3, batch_size=4, checkpoints=(1, 3))
DROPOUT = (("dropout", 0.3), ("norm", "batch"), ("width", 6))
GROUPED = (("dropout", 0.3), ("norm", "group"), ("width", 8))
PRIVATE = Privacy(noise_multiplier=0.5)
BY_TORCH = ("dense, not compiled", "private, not compiled")
CASES: dict[str, tuple[str, Recipe, Records]] = {
    "dense": ("dense", USUAL, FLAT),
    "one step per epoch": ("dense", replace(USUAL, batch_size=64, epochs=12, checkpoints=(5, 12)), FLAT),
    "momentum": ("dense", replace(USUAL, optimizer="sgd", momentum=0.9), FLAT),
    BY_TORCH[0]: ("dense", USUAL, FLAT),
    BY_TORCH[1]: ("dense", replace(USUAL, privacy=PRIVATE), FLAT),
    "stacked": ("stacked", replace(USUAL, net_options=DROPOUT, schedule="cosine"), FLAT),
    "sharpness-aware": ("stacked", replace(USUAL, net_options=DROPOUT, sam_rho=0.1), FLAT),
    "mixup": ("dense", replace(USUAL, mixup=0.5), FLAT),
    "relaxed": ("dense", replace(USUAL, relax_loss=1.0, lr=0.05, epochs=4, checkpoints=(4,)), FLAT),
    "serial": ("serial", Recipe(net=NOISY, net_options=(("width", 8),), epochs=3, batch_size=8), FLAT),
    "augmented": ("stacked", Recipe(net="cnn", epochs=4, batch_size=4, flips=True, crop=1), IMAGES),
    "treated": ("dense", replace(USUAL, epochs=8, checkpoints=(), treatment=Treatment(share=0.3)), FLAT),
    "treated in training": (
        "stacked",
        replace(
            USUAL,
            net_options=DROPOUT,
            epochs=8,
            checkpoints=(6, 8),
            treatment=Treatment("down_weight", share=0.3, epochs=4, restart=False),
        ),
        FLAT,
    ),
    "treated alone": (
        "serial",
        Recipe(
            net=NOISY,
            net_options=(("width", 8),),
            epochs=6,
            batch_size=8,
            treatment=Treatment(share=0.3, epochs=3, restart=False),
        ),
        FLAT,
    ),
    "distilled": ("dense", replace(USUAL, checkpoints=(), distillation=Distillation(3, 1)), FLAT),
    "private": ("dense", replace(USUAL, privacy=PRIVATE), FLAT),
    "private, one step per epoch": (
        "dense",
        replace(USUAL, privacy=PRIVATE, batch_size=64, epochs=40, checkpoints=(5, 40)),
        FLAT,
    ),
    "private, stacked": ("stacked", replace(USUAL, net_options=GROUPED, privacy=PRIVATE), FLAT),
    "private views": (
        "stacked",
        Recipe(
            net="cnn",
            net_options=(("norm", "group"),),
            epochs=4,
            batch_size=4,
            flips=True,
            crop=1,
            privacy=replace(PRIVATE, views=2),
        ),
        IMAGES,
    ),
    "bfloat16": ("serial", replace(USUAL, trainer="serial", precision="bfloat16"), FLAT),
}


@pytest.fixture(autouse=True)
def _one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that compiled steps are interrupted in the middle of an epoch, as those of large blocks are."""
    monkeypatch.setattr("leakscope.train.compiled.PRODUCTS_AT_ONCE", 1.0)


class StoppedError(Exception):
    pass


class Clock:
    """Moves on by a second whenever somebody looks at it; the process ends at the `last` look."""

    def __init__(self, last: float = np.inf) -> None:
        self.looks, self._last = 0, last

    def __call__(self) -> float:
        self.looks += 1
        if self.looks > self._last:
            raise StoppedError
        return float(self.looks)


def train(case: str, folder: Path, clock: Callable[[], float], seconds: float = SECONDS) -> BlockSignals:
    trainer, recipe, given = CASES[case]
    design = make_design("bernoulli", N_MODELS, len(given), 2)
    inputs, saving = inputs_from(given, torch.device("cpu")), Saving(folder, "this bank", seconds, clock)
    arguments = (inputs, design, recipe, np.arange(N_MODELS), 5, ("logits", "loss"), trainer)
    with patch.dict(os.environ, {SWITCH: "0"} if case in BY_TORCH else {}):
        return train_block(*arguments, Follow(saving=saving))


def bytes_of(block: BlockSignals) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in block.signals.items()}


def interrupted(case: str, folder: Path, looks: int, seconds: float = SECONDS) -> None:
    with pytest.raises(StoppedError):
        train(case, folder, Clock(looks), seconds)


SLOW = ("private views", "augmented", "sharpness-aware", "bfloat16", "treated in training")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in CASES]
)
def test_an_interruption_at_any_moment_changes_no_byte(tmp_path: Path, case: str) -> None:
    clock = Clock()
    expected = train(case, tmp_path / "undisturbed", clock)
    for looks in np.linspace(1, clock.looks - 1, 4).astype(int):
        folder = tmp_path / str(looks)
        interrupted(case, folder, int(looks))
        torch.manual_seed(int(looks))  # a new process has other global generators
        resumed_clock = Clock()
        resumed = train(case, folder, resumed_clock)
        assert bytes_of(resumed) == bytes_of(expected)
        np.testing.assert_array_equal(resumed.diverged_at, expected.diverged_at)
        n_units = N_MODELS if CASES[case][0] == "serial" else 1
        assert resumed_clock.looks <= clock.looks - looks + LOST_LOOKS * n_units, "it does not start over"


@pytest.mark.parametrize("case", ["stacked", "serial", "treated"])
def test_it_can_be_interrupted_again_and_again(tmp_path: Path, case: str) -> None:
    expected = train(case, tmp_path / "undisturbed", Clock())
    resumed, n_interruptions = None, 0
    while resumed is None:
        try:
            resumed = train(case, tmp_path / "again", Clock(12))
        except StoppedError:
            n_interruptions += 1
    assert n_interruptions > 3
    assert bytes_of(resumed) == bytes_of(expected)


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def other_header(path: Path, **changes: object) -> None:
    sealed = read_sealed(path)
    assert sealed is not None
    write_sealed(path, {**sealed.header, **changes}, sealed.arrays)


HARM: dict[str, Callable[[Path], object]] = {
    "first byte": lambda state: flip(state, 0.0),
    "a byte of the header": lambda state: flip(state, 0.02),
    "a byte of the numbers": lambda state: flip(state, 0.9),
    "a byte of a checkpoint": lambda state: flip(state.with_name("checkpoint-0"), 0.5),
    "cut off": lambda state: state.write_bytes(state.read_bytes()[:-1]),
    "empty": lambda state: state.write_bytes(b""),
    "a checkpoint is gone": lambda state: state.with_name("checkpoint-0").unlink(),
    "of another bank": lambda state: other_header(state, bank="another"),
    "of other models": lambda state: other_header(state, models=[0, 1, 4]),
    "of another trainer": lambda state: other_header(state, trainer="stacked"),
    "an impossible position": lambda state: other_header(state, epoch=99),
    "an impossible stage": lambda state: other_header(state, stage=1),
    "no stage": lambda state: other_header(state, stage=None),
    "no position": lambda state: other_header(state, epoch="all"),
    "a folder in its place": lambda state: (state.unlink(), state.mkdir()),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_a_damaged_or_foreign_state_is_not_used(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    clock = Clock()
    expected = train("dense", tmp_path / "undisturbed", clock)
    interrupted("dense", tmp_path / "harmed", clock.looks - 2)
    (state,) = (tmp_path / "harmed").rglob("state")
    harm(state)
    if state.is_dir():
        shutil.rmtree(state)
    assert bytes_of(train("dense", tmp_path / "harmed", Clock())) == bytes_of(expected)


def test_a_network_with_state_of_its_own_is_not_resumed_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A counter in Python is neither a parameter nor a buffer: a resumed network would start it at 0."""
    counting = Recipe(net=NOISY, net_options=(("counts", True), ("width", 8)), epochs=3, batch_size=8)
    monkeypatch.setitem(CASES, "counting", ("serial", counting, FLAT))
    clock = Clock()
    expected = train("counting", tmp_path / "undisturbed", clock)
    assert expected.note == HAS_OWN_STATE
    interrupted("counting", tmp_path / "again", clock.looks // 2)
    assert not (tmp_path / "again" / STATES).exists()
    assert bytes_of(train("counting", tmp_path / "again", Clock())) == bytes_of(expected)


def test_the_clock_decides_how_often_a_state_is_saved(tmp_path: Path) -> None:
    clock = Clock()
    train("dense", tmp_path, clock, seconds=1e9)
    assert not (tmp_path / STATES).exists()
    train("dense", tmp_path, clock, seconds=0.0)
    assert last_saved(tmp_path) is not None


def test_where_saving_is_slow_it_takes_a_tenth_of_the_time_at_most(tmp_path: Path) -> None:
    now, saves = 0.0, []

    def clock() -> float:
        return now

    saved = Saving(tmp_path, "this bank", 20.0, clock).of([0], "dense")
    arrays: dict[str, AnyArray] = {"x": np.zeros(1)}

    class Slow(dict[str, AnyArray]):
        def values(self) -> object:  # type: ignore[override]
            nonlocal now
            now += 30.0
            return super().values()

    for _ in range(40_000):
        now += 1.0
        if saved.is_due():
            before = saves[-1] if saves else 0.0
            assert now - before <= max(30.0, 0.05 * now) + 30.0, "no more than stated is lost"
            saved.write({"share": 0.5}, Slow(arrays), [])
            saves.append(now)
    assert 30.0 * len(saves) < 0.2 * now
    assert np.diff(saves)[-1] > 300


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, 1001])
def test_numbers_can_be_skipped(n: int) -> None:
    drawn, skipped = generator(1, 2, Purpose.BATCH_ORDER), generator(1, 2, Purpose.BATCH_ORDER)
    drawn.random((n,), dtype=np.float32)
    skip_float32(skipped, n)
    np.testing.assert_array_equal(drawn.random(7, np.float32), skipped.random(7, np.float32))
