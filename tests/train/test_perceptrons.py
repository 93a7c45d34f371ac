"""Training without torch: the parameters, batches and outputs that torch would give."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from leakscope.engine import local
from leakscope.engine.request import describe_net
from leakscope.engine.worker import Worker, perceptrons_of
from leakscope.models.perceptron import perceptron_of
from leakscope.models.registry import build
from leakscope.recipe import Recipe
from leakscope.train import perceptrons
from leakscope.types import Records
from tests.engine.small_population import complete, contents, design, records, regression_records

ROUNDING = 2e-5
"""Of outputs of about 5, float32; the largest difference over the cases below is 2e-6."""

RECIPE = Recipe(net_options=(("width", 6), ("depth", 2)), epochs=5, batch_size=8, lr=0.05, checkpoints=(2, 5))
CASES = {
    "adam": RECIPE,
    "plain SGD": replace(RECIPE, optimizer="sgd"),
    "momentum": replace(RECIPE, optimizer="sgd", momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw, cosine": replace(RECIPE, optimizer="adamw", weight_decay=0.1, schedule="cosine"),
    "smoothed labels": replace(RECIPE, label_smoothing=0.2),
    "labels of high entropy": replace(RECIPE, label_entropy=0.5),
    "tanh": replace(RECIPE, net_options=(("width", 3), ("activation", "tanh"))),
    "wide": replace(RECIPE, net_options=(("width", 70),)),
    "linear": replace(RECIPE, net="linear", net_options=()),
    "without duplicates": replace(RECIPE, deduplicate=True),
}


def request(recipe: Recipe = RECIPE, of: Records | None = None, **changes: object) -> local.TrainingRequest:
    settings: dict[str, object] = {"signals": ("correct", "log_odds", "logits", "loss"), **changes}
    return local.TrainingRequest(of or records(), design(), recipe, 5, **settings)  # type: ignore[arg-type]


def trained(
    asked: local.TrainingRequest, monkeypatch: pytest.MonkeyPatch, by_torch: bool
) -> dict[str, object]:
    with monkeypatch.context() as patched:
        if by_torch:
            patched.setattr(perceptrons, "MOST_PRODUCTS", 0.0)
        worker = Worker(asked, "cpu")
        assert (worker.perceptrons is None) == by_torch
        return dict(worker.train(np.arange(7)).signals)


def with_repetitions(given: Records) -> Records:
    features = given.features.copy()
    features[3:6] = features[2]
    return replace(given, features=features, copies=1 + np.arange(len(given)) % 3)


@pytest.mark.parametrize("name", CASES)
def test_models_end_where_torch_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (records(), with_repetitions(records())):
        asked = request(CASES[name], given)
        ours, theirs = (trained(asked, monkeypatch, by_torch) for by_torch in (False, True))
        assert {k: v.dtype for k, v in ours.items()} == {k: v.dtype for k, v in theirs.items()}
        for signal in asked.signal_names:
            np.testing.assert_allclose(ours[signal], theirs[signal], atol=ROUNDING, err_msg=signal)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_regressions_end_where_torch_ends(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = regression_records()
    for labels in (given.labels, 1e6 + 1e4 * given.labels, given.labels[:1].repeat(len(given))):
        one = replace(given, labels=labels.astype(np.float32))
        recipe = replace(RECIPE, optimizer=optimizer, lr=0.01)  # type: ignore[arg-type]
        asked = request(recipe, one, signals=("loss", "scaled_residual"))
        ours, theirs = (trained(asked, monkeypatch, by_torch) for by_torch in (False, True))
        for signal in asked.signal_names:
            np.testing.assert_allclose(ours[signal], theirs[signal], rtol=1e-3, atol=ROUNDING)


def test_first_parameters_are_those_of_torch_to_the_bit() -> None:
    for n_inputs in (*range(1, 130), 1000, 4097):
        seed = 2**62 + 977 * n_inputs
        recipe = Recipe(net_options=(("width", 5),))
        net = perceptron_of("mlp", dict(recipe.net_options), (n_inputs,), 3)
        assert net is not None
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            theirs = build(recipe, (n_inputs,), 3).state_dict()
        assert {name: tuple(t.shape) for name, t in theirs.items()} == net.shapes
        for ours, (name, their) in zip(net.initial(seed), theirs.items(), strict=True):
            assert ours.tobytes() == their.numpy().tobytes(), (n_inputs, name)


def test_what_it_does_not_know_is_left_to_torch() -> None:
    assert perceptrons_of(request()) is not None
    others = [
        {"net": "cnn"},
        {"net_options": (("width", 6), ("dropout", 0.5))},
        {"net_options": (("width", 6), ("norm", "batch"))},
        {"net_options": (("width", 0),)},
        {"net_options": (("width", 9000),)},
        {"net_options": (("activation", "gelu"),)},
        {"net_options": (("unknown", 1),)},
        {"trainer": "serial"},
        {"precision": "bfloat16"},
        {"mixup": 0.2},
        {"sam_rho": 0.1},
        {"entropy_weight": 0.1},
        {"relax_loss": 0.5},
        {"epochs": 10**9, "checkpoints": ()},
    ]
    for changed in others:
        assert perceptrons_of(request(replace(RECIPE, **changed))) is None, changed  # type: ignore[arg-type]
    for signal in ("label_robustness", f"{__name__}:own_signal"):
        assert perceptrons_of(request(signals=(signal,))) is None, signal
    integers = replace(records(), features=np.zeros((24, 1, 2, 2), dtype=np.uint8))
    assert perceptrons_of(request(of=integers)) is None
    assert perceptrons_of(request(queries=2, signals=("query_log_odds",))) is None


def own_signal(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits[..., 0]


def test_a_device_that_is_asked_for_is_not_replaced() -> None:
    """On a machine without a GPU it is refused, as before."""
    if not torch.cuda.is_available():
        with pytest.raises(Exception, match="CUDA"):
            Worker(request(), "cuda")


def test_short_units_give_the_same_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(tmp_path / "whole", RECIPE)
    monkeypatch.setattr(perceptrons.Perceptrons, "models_at_once", 2)
    complete(tmp_path / "in parts", RECIPE)
    assert contents(tmp_path / "in parts") == contents(tmp_path / "whole")


def test_no_byte_depends_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakscope.train.compiled._PRODUCTS_OF_A_THREAD", 1.0)
    outputs = set()
    for n_threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
        outputs.add(Worker(request(), "cpu").train(np.arange(7)).signals["logits"].tobytes())
    assert len(outputs) == 1


def test_a_model_that_diverges_is_reported() -> None:
    block = Worker(request(replace(RECIPE, optimizer="sgd", lr=1e30)), "cpu").train(np.arange(7))
    assert (block.diverged_at == 2).all()


def test_the_identity_of_a_network_follows_its_shape() -> None:
    nets = [((4,), 3, ()), ((5,), 3, ()), ((4,), 2, ()), ((4,), 3, (("depth", 2),)),
            ((4,), 3, (("activation", "tanh"),)), ((4,), 3, (("norm", "batch"),))]  # fmt: skip
    digests = {describe_net(Recipe(net_options=o), shape, n).sha256 for shape, n, o in nets}
    assert len(digests) == len(nets)


def test_a_small_audit_does_not_load_torch(tmp_path: Path) -> None:
    script = """
        import sys, leakscope

        records = leakscope.load("digits").take(range(300))
        leakscope.audit(records, leakscope.Recipe(epochs=2), out=sys.argv[1], models=8)
        assert "torch" not in sys.modules, "torch was loaded"
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "run")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
