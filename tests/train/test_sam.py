"""Sharpness-aware minimization against two steps written by hand."""

import numpy as np
import pytest
import torch

from leakscope.design import make_design
from leakscope.recipe import Recipe
from leakscope.train.dense import DenseStack
from leakscope.train.optimizer import Optimizer, sharpness_aware
from leakscope.train.side_by_side import SerialModel, SideBySide
from leakscope.train.stacked import VmapStack

from .problems import assert_same_state, class_records, image_records, mlp_recipe, trained, trained_state

MAKERS = {"dense": DenseStack, "stacked": VmapStack, "serial": SerialModel, "side by side": SideBySide}
RHO = 0.3


class Quadratics:
    """Model m's loss is w' A_m w / 2, in two parameters; its gradient is A_m w."""

    def __init__(self):
        rng = np.random.default_rng(0)
        roots = torch.from_numpy(rng.normal(size=(3, 5, 5)))
        self.curvature = roots @ roots.mT
        start = torch.from_numpy(rng.normal(size=(3, 5)))
        self.parameters = [start[:, :2].clone(), start[:, 2:].clone()]
        self.buffers = [torch.zeros(3)]

    def gradients(self):
        w = torch.cat(self.parameters, 1)
        self.buffers[0] += 1
        g = torch.einsum("mij,mj->mi", self.curvature, w)
        return [g[:, :2].contiguous(), g[:, 2:].contiguous()]

    def sam_step_by_hand(self, w, m, lr):
        """One model, one plain step of gradient descent."""
        g = self.curvature[m] @ w
        worst = w + RHO * g / g.norm()
        return w - lr * self.curvature[m] @ worst


def test_it_equals_two_steps_by_hand_on_a_quadratic():
    problem = Quadratics()
    by_hand = list(torch.cat(problem.parameters, 1))
    for _ in range(4):
        found = sharpness_aware(problem.gradients, problem.parameters, problem.buffers, RHO)
        for p, g in zip(problem.parameters, found, strict=True):
            p.sub_(0.05 * g)
        by_hand = [problem.sam_step_by_hand(w, m, 0.05) for m, w in enumerate(by_hand)]
        torch.testing.assert_close(torch.cat(problem.parameters, 1), torch.stack(by_hand), rtol=1e-12, atol=0)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_it_wraps_momentum_and_adamw_like_torch_s_own_optimizers(optimizer):
    problem = Quadratics()
    problem.parameters = [p.float() for p in problem.parameters]
    problem.curvature = problem.curvature.float()
    settings = {"momentum": 0.9, "nesterov": True} if optimizer == "sgd" else {}
    recipe = Recipe(optimizer=optimizer, lr=0.01, weight_decay=0.1, sam_rho=RHO, **settings)
    ours = Optimizer(recipe, problem.parameters)
    weights = [torch.cat(problem.parameters, 1)[m].clone() for m in range(3)]
    kinds = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    theirs = [kinds[optimizer]([w], lr=0.01, weight_decay=0.1, **settings) for w in weights]
    for _ in range(5):
        ours.step(sharpness_aware(problem.gradients, problem.parameters, problem.buffers, RHO), 0.01)
        for m, (w, step) in enumerate(zip(weights, theirs, strict=True)):
            g = problem.curvature[m] @ w
            w.grad = problem.curvature[m] @ (w + RHO * g / g.norm())
            step.step()
    torch.testing.assert_close(torch.cat(problem.parameters, 1), torch.stack(weights), rtol=1e-5, atol=1e-6)


def test_parameters_come_back_exactly_and_the_perturbed_pass_leaves_no_trace_in_buffers():
    problem = Quadratics()
    before = [p.clone() for p in problem.parameters]
    sharpness_aware(problem.gradients, problem.parameters, problem.buffers, RHO)
    assert all(torch.equal(p, b) for p, b in zip(problem.parameters, before, strict=True))
    assert problem.buffers[0].tolist() == [1, 1, 1]


def test_a_model_without_gradient_stays_finite():
    problem = Quadratics()
    problem.curvature[1] = 0
    found = sharpness_aware(problem.gradients, problem.parameters, problem.buffers, RHO)
    assert all(g.isfinite().all() for g in found)
    assert all((g[1] == 0).all() for g in found)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_with_radius_zero_it_is_its_base_optimizer_exactly(maker, optimizer):
    records = class_records()
    design = make_design("balanced", 2, len(records), seed=1)
    alone = maker == "serial"

    def ended(**more):
        recipe = mlp_recipe(optimizer=optimizer, lr=0.02, **more)
        return trained_state(MAKERS[maker], records, design, recipe, alone=alone)

    base, there = ended(), ended(sam_rho=RHO)
    assert_same_state(ended(sam_rho=0.0), base, rtol=0, atol=0)
    assert any((there[name] - base[name]).abs().max() > 1e-3 for name in there)


@pytest.mark.parametrize("maker", ["stacked", "side by side"])
def test_stacked_and_serial_agree_on_a_cnn_with_batch_norm(maker):
    records = image_records()
    design = make_design("balanced", 2, len(records), seed=1)
    recipe = Recipe(net="cnn", net_options=(("channels", 3),), optimizer="sgd", lr=0.05, momentum=0.9,
                    sam_rho=0.05, batch_size=4, epochs=2)  # fmt: skip
    stack = trained(MAKERS[maker], records, design, recipe)
    serial = [trained(SerialModel, records, design, recipe, np.array([m])) for m in range(2)]
    for name, value in stack.state().items():
        one_by_one = torch.cat([s.state()[name] for s in serial])
        torch.testing.assert_close(value, one_by_one, rtol=1e-4, atol=1e-5)
    for k, buffer in enumerate(stack.buffers):
        torch.testing.assert_close(buffer, torch.cat([s.buffers[k] for s in serial]), rtol=1e-4, atol=1e-5)
