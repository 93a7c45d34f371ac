"""Gradient norms: against one backward pass a record, and of models trained again."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from leakscope.design import make_design
from leakscope.hardness.training import el2n
from leakscope.recipe import Recipe
from leakscope.train.gradient_norms import at_checkpoints, record_gradient_norms
from leakscope.train.loop import inputs_from, train_block
from leakscope.train.losses import PLAIN
from leakscope.types import Records


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(12, 3)
    )
    net(torch.randn(20, 1, 4, 4))  # moves the batch norm's statistics
    return net.eval()


def norms_one_by_one(net: nn.Module, x: torch.Tensor, y: torch.Tensor, parameters: list[nn.Parameter]):
    found = []
    for i in range(len(x)):
        gradients = torch.autograd.grad(PLAIN.row_losses(net(x[i : i + 1]), y[i : i + 1])[0], parameters)
        found.append(torch.cat([g.flatten() for g in gradients]).norm())
    return torch.stack(found)


def images(n: int = 15) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 1, 4, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def test_norms_are_those_of_one_backward_pass_a_record():
    net, (x, y) = convolutional(), images()
    expected = norms_one_by_one(net, x, y, list(net.parameters()))
    torch.testing.assert_close(record_gradient_norms(net, x, y), expected)
    net[0].requires_grad_(False)
    trained = [p for p in net.parameters() if p.requires_grad]
    torch.testing.assert_close(record_gradient_norms(net, x, y), norms_one_by_one(net, x, y, trained))


def test_a_regression_target_has_gradients_too():
    net, x = nn.Linear(2, 1), torch.tensor([[3.0, 4.0]])
    residual = net(x)[0, 0].item() - 1.0
    found = record_gradient_norms(net, x, torch.tensor([1.0]))
    assert found.item() == pytest.approx(2 * abs(residual) * np.sqrt(26), rel=1e-5)


def two_blobs(n: int = 60) -> Records:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, n)
    features = (rng.standard_normal((n, 4)) + 2 * labels[:, None]).astype(np.float32)
    ids = np.array([f"r{i}" for i in range(n)])
    return Records(features, labels.astype(np.int64), ids, "blobs", class_names=("a", "b"))


RECIPE = Recipe(
    net="mlp", net_options=(("width", 8), ("dropout", 0.2)), lr=0.01, schedule="cosine", epochs=6,
    batch_size=16, checkpoints=(2, 6),
)  # fmt: skip


@pytest.mark.parametrize("trainer", ["stacked", "serial"])
def test_a_model_trained_again_is_the_model_of_the_bank(trainer):
    inputs = inputs_from(two_blobs(), torch.device("cpu"))
    design = make_design("balanced", 4, 60, seed=0)
    banked = train_block(inputs, design, RECIPE, np.arange(4), 7, ("logits",), trainer).signals["logits"]

    def logits(net: nn.Module) -> np.ndarray:
        with torch.no_grad():
            return net(inputs.x).numpy()

    for model in (0, 3):
        again = np.stack(at_checkpoints(logits, inputs, design, RECIPE, model, seed=7))
        np.testing.assert_allclose(again, banked[model], atol=1e-4)
    other = np.stack(at_checkpoints(logits, inputs, design, RECIPE, 3, seed=8))
    assert np.abs(other - banked[3]).max() > 0.01


def test_norms_of_a_model_at_its_checkpoints():
    inputs = inputs_from(two_blobs(), torch.device("cpu"))
    design = make_design("balanced", 4, 60, seed=0)
    measure = partial(record_gradient_norms, x=inputs.x, y=inputs.y)
    norms = torch.stack(at_checkpoints(measure, inputs, design, RECIPE, 3, seed=7)).numpy()
    assert norms.shape == (2, 60)
    banked = train_block(inputs, design, RECIPE, np.array([3]), 7, ("logits",), "serial").signals["logits"]
    # The gradient in the last layer's bias is the error at the logits, of norm EL2N: a part of the whole.
    errors = el2n(banked[0], inputs.y.numpy())
    assert (norms >= errors * (1 - 1e-3)).all()
    assert np.corrcoef(np.log(errors[1]), np.log(norms[1]))[0, 1] > 0.7
