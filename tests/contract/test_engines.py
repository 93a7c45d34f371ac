"""Every engine fills the same bank: the same bytes, progress, resume, errors and losses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from leakscope.bank.bank import Bank
from leakscope.engine import local
from leakscope.engine.local import Engine, LocalEngine
from leakscope.errors import InputError, TrainingError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.signals.output_filter import OutputFilter
from tests.engine.clusters import two_nodes
from tests.engine.functions import centroids, dies_once, fails, one_always_dies
from tests.engine.small_population import N_MODELS, RECIPE, complete, contents, design, use_blocks_of

RECIPES: dict[str, AnyRecipe] = {
    "dense": RECIPE,
    "stacked": Recipe(net_options=(("width", 4), ("norm", "batch")), epochs=3, batch_size=8),
    "serial": Recipe(net_options=(("width", 4),), epochs=3, batch_size=8, trainer="serial"),
    "estimators": EstimatorRecipe(LogisticRegression(), processes=1),
    "function": FunctionRecipe(centroids),
    "pair of estimators": EstimatorRecipe(LogisticRegression(), processes=2),
}
SAME_BYTES = [
    *(
        ("processes", name) for name in ("serial", "function", "pair of estimators")
    ),  # all others stay in one process
    *(("devices", name) for name in ("dense",)),
    *(("ray", name) for name in RECIPES),
]
APART = ("processes", "ray")
"""Engines that train a function in processes of their own."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster; connected, so that its processes start once for all tests."""
    with two_nodes() as nodes:
        import ray

        ray.init(address=nodes.address, logging_level="error", log_to_driver=False)
        yield nodes.address
        ray.shutdown()


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine of the test's parameter, with small blocks so that there are several."""
    use_blocks_of(monkeypatch, 3)
    if request.param == "ray":
        address = request.getfixturevalue("cluster")
        from leakscope.engine.ray_engine import RayEngine

        return RayEngine(address)
    if request.param == "processes":
        for name in ("SECONDS_WORTH_PROCESSES", "SECONDS_TO_LOAD", "SECONDS_TOGETHER"):
            monkeypatch.setattr(local, name, 0.0)
        monkeypatch.setattr(local, "cores", lambda: 2)
    if request.param == "devices":
        monkeypatch.setattr(LocalEngine, "parallel_devices", lambda self, request: ["cpu", "cpu"])
    return LocalEngine()


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "name"), SAME_BYTES, indirect=["engine"])
def test_every_engine_makes_the_same_bytes_and_its_progress_adds_up(
    tmp_path: Path, engine: Engine, name: str
) -> None:
    recipe, done = RECIPES[name], list[float]()
    bank = complete(tmp_path / "bank", recipe, engine=engine, progress=done.append)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalEngine, "parallel_devices", lambda self, request: [])
        patched.setattr(local, "SECONDS_WORTH_PROCESSES", float("inf"))
        complete(tmp_path / "here", recipe)
    assert contents(tmp_path / "bank") == contents(tmp_path / "here")
    assert bank.damage() == []
    assert done[0] == 0
    assert sum(done) == pytest.approx(N_MODELS)
    assert bank.manifest.engine == engine.name
    assert bank.manifest.device == "cpu"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "name"),
    [("processes", "function"), ("ray", "dense"), ("ray", "function")],
    indirect=["engine"],
)
def test_every_engine_filters_outputs(tmp_path: Path, engine: Engine, name: str) -> None:
    outputs = OutputFilter(random_values=True, digits=2)
    complete(tmp_path / "bank", RECIPES[name], engine=engine, outputs=outputs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local, "SECONDS_WORTH_PROCESSES", float("inf"))
        complete(tmp_path / "here", RECIPES[name], outputs=outputs)
        complete(tmp_path / "unfiltered", RECIPES[name])
    assert contents(tmp_path / "bank") == contents(tmp_path / "here")
    odds = [np.array(Bank.open(tmp_path / at).signals().arrays["log_odds"]) for at in ("bank", "unfiltered")]
    assert not np.allclose(*odds)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["devices", "ray"], indirect=True)
def test_an_interrupted_bank_goes_on_and_keeps_its_blocks(tmp_path: Path, engine: Engine) -> None:
    stop = _stop_once(tmp_path / "bank" / "blocks")
    with pytest.raises(KeyboardInterrupt):
        complete(tmp_path / "bank", RECIPE, engine=engine, progress=stop)
    with pytest.raises(InputError, match="unfinished bank"):
        Bank.open(tmp_path / "bank")
    done: list[float] = []
    complete(tmp_path / "bank", RECIPE, engine=engine, progress=done.append)
    assert done[0] >= 1
    assert sum(done) == pytest.approx(N_MODELS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalEngine, "parallel_devices", lambda self, request: [])
        complete(tmp_path / "undisturbed", RECIPE)
    assert contents(tmp_path / "bank") == contents(tmp_path / "undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["here", "ray"], indirect=True)
def test_a_users_own_error_arrives_with_the_line_that_raised_it(tmp_path: Path, engine: Engine) -> None:
    said = r"fails raised ArithmeticError: the user's own mistake \(functions.py, line \d+\)"
    with pytest.raises(InputError, match=said):
        complete(tmp_path, FunctionRecipe(fails), engine=engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", APART, indirect=True)
def test_a_killed_process_costs_its_unit_only(tmp_path: Path, engine: Engine) -> None:
    """The first model of the local engine is trained here, to see how long it takes: it must not die."""
    complete(tmp_path / "undisturbed", FunctionRecipe(centroids))
    recipe = FunctionRecipe(dies_once(tmp_path, spared=os.getpid()))
    complete(tmp_path / "bank", recipe, engine=engine)
    assert (tmp_path / "died").exists()
    for name in ("correct", "log_odds", "loss"):
        file = f"signals/{name}.npy"
        assert (tmp_path / "bank" / file).read_bytes() == (tmp_path / "undisturbed" / file).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("engine", APART, indirect=True)
def test_a_unit_that_always_fails_ends_the_run_in_one_line(tmp_path: Path, engine: Engine) -> None:
    doomed = next(r for r in range(24) if design().in_mask[1:, r].any())
    with pytest.raises(TrainingError, match=r"model \d could not be trained: the process was killed 4 times"):
        complete(tmp_path, FunctionRecipe(one_always_dies(doomed, spared=os.getpid())), engine=engine)


def _stop_once(blocks: Path) -> Callable[[float], None]:
    """Ctrl-C as soon as a block is on disk."""

    def stop(_: float) -> None:
        if blocks.exists() and any(path.name.isdigit() for path in blocks.iterdir()):
            raise KeyboardInterrupt

    return stop
