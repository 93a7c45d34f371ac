"""Tiny training problems, and the plain torch loop that every trainer is held against."""

import numpy as np
import torch
from torch import nn

from leakscope.recipe import Recipe
from leakscope.train.loop import initial_nets, inputs_from, train
from leakscope.train.losses import Objective
from leakscope.train.plan import BatchPlan
from leakscope.train.poisson import plan_of
from leakscope.types import Design, Records

CPU = torch.device("cpu")
EVERY_SIGNAL = ("correct", "log_odds", "logits", "loss")


def class_records(n=40, n_features=5, n_classes=3, seed=0):
    """Classes that overlap, so that gradients stay alive."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    centres = rng.normal(size=(n_classes, n_features))
    features = (centres[labels] + rng.normal(size=(n, n_features))).astype(np.float32)
    names = tuple(f"class {c}" for c in range(n_classes))
    return Records(features, labels, np.arange(n).astype(str), class_names=names)


def real_records(n=40, n_features=5, seed=0):
    """A regression target."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, n_features)).astype(np.float32)
    labels = (features.sum(axis=1) + rng.normal(size=n)).astype(np.float32)
    return Records(features, labels, np.arange(n).astype(str))


def image_records(n=24, channels=2, side=8, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 256, (n, channels, side, side)).astype(np.uint8)
    return Records(features, np.arange(n) % 3, np.arange(n).astype(str), class_names=("a", "b", "c"))


def unequal_design(sizes, n_records, seed=0):
    """Models of the given sizes, so that the small ones have no batch at the last steps."""
    rng = np.random.default_rng(seed)
    return Design(np.stack([rng.permutation(n_records) < size for size in sizes]))


def mlp_recipe(**changes):
    options = {"width": 7, **changes.pop("options", {})}
    defaults = {"net": "mlp", "lr": 0.05, "optimizer": "sgd", "batch_size": 8, "epochs": 1}
    return Recipe(net_options=tuple(options.items()), **{**defaults, **changes})


def trained(stack_maker, records, design, recipe, models=None, seed=3):
    """The stack after training; blocks of one for a maker that takes one net."""
    inputs = inputs_from(records, CPU)
    models = np.arange(design.n_models) if models is None else models
    stack = stack_maker(initial_nets(recipe, inputs, models, seed), Objective.of(recipe), CPU)
    for _ in train(stack, inputs, plan_of(design, models, recipe, seed), recipe):
        pass
    return stack


def trained_state(stack_maker, records, design, recipe, seed=3, alone=False):
    """name -> (models, ...), after training in one block or one model at a time."""
    if not alone:
        return trained(stack_maker, records, design, recipe, seed=seed).state()
    models = np.arange(design.n_models)
    states = [trained(stack_maker, records, design, recipe, models[m : m + 1], seed).state() for m in models]
    return {name: torch.cat([s[name] for s in states]) for name in states[0]}


def plain_optimizer(recipe, parameters):
    shared = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=recipe.momentum, nesterov=recipe.nesterov, **shared)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe.optimizer](parameters, **shared)


def plain_net(records, design, recipe, model, seed=3):
    """One model by the loop anybody would write, on batches without any filling.

    Adam counts the block's steps: where the model has no batch only its counter moves on.
    """
    inputs = inputs_from(records, CPU)
    (net,) = initial_nets(recipe, inputs, np.array([model]), seed)
    plan = BatchPlan(design, np.array([model]), recipe.batch_size, seed)
    optimizer = plain_optimizer(recipe, [p for p in net.parameters() if p.requires_grad])
    criterion = nn.CrossEntropyLoss(label_smoothing=recipe.label_smoothing)
    n_members = len(design.members(model))
    for epoch, order in enumerate(plan.epochs(recipe.epochs)):
        row_order = torch.from_numpy(order[:, 0].reshape(-1)[:n_members])
        for step in range(plan.steps):
            batch = row_order[step * plan.batch : (step + 1) * plan.batch]
            optimizer.param_groups[0]["lr"] = recipe.lr * recipe.lr_factor(epoch + step / plan.steps)
            if len(batch) == 0:
                _count_only(optimizer)
                continue
            x, y = inputs.x[batch], inputs.y[batch]
            net.train()
            optimizer.zero_grad()
            outputs = net(x)
            loss = criterion(outputs, y) if records.is_classification else (outputs[:, 0] - y).square().mean()
            loss.backward()
            optimizer.step()
    return net


def plain_outputs(records, design, recipe, model, seed=3):
    """What that one model says about all records; (records, outputs)."""
    net = plain_net(records, design, recipe, model, seed).eval()
    with torch.no_grad():
        return net(inputs_from(records, CPU).x)


def plain_state(records, design, recipe, seed=3):
    nets = [plain_net(records, design, recipe, m, seed) for m in range(design.n_models)]
    return {
        name: torch.stack([dict(net.named_parameters())[name].detach() for net in nets])
        for name, _ in nets[0].named_parameters()
    }


def assert_same_state(found, wanted, **tolerance):
    assert list(found) == list(wanted)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], **tolerance, msg=lambda m, n=name: f"{n}: {m}")


def _count_only(optimizer):
    for state in optimizer.state.values():
        if "step" in state:
            state["step"] += 1
