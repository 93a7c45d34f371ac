import pytest
import torch

from leakscope.recipe import Recipe
from leakscope.train.optimizer import Optimizer

from .problems import plain_optimizer

SETTINGS = {
    "sgd": {"optimizer": "sgd"},
    "sgd, decay": {"optimizer": "sgd", "weight_decay": 0.1},
    "sgd, momentum": {"optimizer": "sgd", "momentum": 0.9},
    "sgd, momentum and decay": {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1},
    "sgd, nesterov and decay": {"optimizer": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "adam": {"optimizer": "adam"},
    "adam, decay": {"optimizer": "adam", "weight_decay": 0.1},
    "adamw": {"optimizer": "adamw"},
    "adamw, decay": {"optimizer": "adamw", "weight_decay": 0.1},
}


def start(seed=0):
    """Two stacked parameters of three models."""
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 4, 5, generator=rng), torch.randn(3, 4, generator=rng)]


@pytest.mark.parametrize("name", SETTINGS)
def test_steps_are_those_of_torch_optim(name):
    recipe = Recipe(lr=0.03, **SETTINGS[name])
    found, wanted = start(), [p.requires_grad_() for p in start()]
    ours, theirs = Optimizer(recipe, found), plain_optimizer(recipe, wanted)
    for step in range(7):
        gradients = [g * 10.0 ** (step % 3 - 1) for g in start(seed=step + 1)]
        lr = recipe.lr / (step + 1)
        ours.step([g.clone() for g in gradients], lr)
        theirs.param_groups[0]["lr"] = lr
        for parameter, gradient in zip(wanted, gradients, strict=True):
            parameter.grad = gradient.clone()
        theirs.step()
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other.detach(), rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["sgd, momentum and decay", "adamw, decay"])
def test_models_do_not_touch_each_other(name):
    recipe = Recipe(lr=0.1, **SETTINGS[name])
    together, alone = start(), [p[1:2].clone() for p in start()]
    block, single = Optimizer(recipe, together), Optimizer(recipe, alone)
    for step in range(3):
        gradients = start(seed=step + 1)
        single.step([g[1:2].clone() for g in gradients], 0.1)
        gradients[0][0] = torch.nan  # a neighbour's divergence
        block.step(gradients, 0.1)
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one[1:2], other, rtol=0, atol=0)
    assert together[0][0].isnan().all()


@pytest.mark.parametrize(("name", "n_moments"), [("sgd", 0), ("sgd, momentum", 1), ("adam", 2)])
def test_tensors_are_everything_a_step_changes(name, n_moments):
    parameters = start()
    optimizer = Optimizer(Recipe(lr=0.1, **SETTINGS[name]), parameters)
    assert len(optimizer.tensors) == 2 * (1 + n_moments)
    before = [t.clone() for t in optimizer.tensors]
    optimizer.step(start(seed=1), 0.1)
    assert all((t != b).any() for t, b in zip(optimizer.tensors, before, strict=True))
    assert optimizer.tensors[0] is parameters[0]
