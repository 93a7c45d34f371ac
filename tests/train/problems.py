"""Tiny training problems, and the plain torch loop that every trainer is held against."""

import numpy as np
import torch
from scipy import optimize
from scipy.stats import entropy
from torch.nn import functional

from leakscope.recipe import Recipe
from leakscope.train.loop import initial_nets, inputs_from, train
from leakscope.train.losses import Objective
from leakscope.train.mixup import drawn_mixes
from leakscope.train.plan import BatchPlan
from leakscope.train.stages import stages_of
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
    stages = stages_of(recipe, design, None, models, seed, inputs.n_outputs)
    for _ in train(stack, inputs, stages.plan(len(stages.sizes) - 1), recipe):
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
    n_members = len(design.members(model))
    mixes = drawn_mixes(recipe.mixup or 1.0, plan)
    for epoch, (order, mix) in enumerate(zip(plan.epochs(recipe.epochs), mixes, strict=False)):
        row_order = torch.from_numpy(order[:, 0].reshape(-1)[:n_members])
        for step in range(plan.steps):
            batch = row_order[step * plan.batch : (step + 1) * plan.batch]
            optimizer.param_groups[0]["lr"] = recipe.lr * recipe.lr_factor(epoch + step / plan.steps)
            if len(batch) == 0:
                _count_only(optimizer)
                continue
            x, y, partner = inputs.x[batch], inputs.y[batch], mix.partner[step, 0, : len(batch)]
            share = float(mix.share[step, 0]) if recipe.mixup else 1.0
            net.train()
            optimizer.zero_grad()
            outputs = net(share * x + (1 - share) * x[partner])
            loss = share * plain_loss(recipe, outputs, y, epoch)
            loss = loss + (1 - share) * plain_loss(recipe, outputs, y[partner], epoch)
            loss.backward()
            optimizer.step()
    return net


def plain_loss(recipe, outputs, y, epoch):
    """The loss of a batch as the publications write it."""
    if y.is_floating_point():
        return (outputs[:, 0] - y).square().mean()
    if recipe.label_entropy:
        return _hamp_loss(recipe, outputs, y)
    losses = functional.cross_entropy(outputs, y, reduction="none", label_smoothing=recipe.label_smoothing)
    if not recipe.relax_loss or losses.mean() >= recipe.relax_loss:
        return losses.mean()
    if epoch % 2 == 0:
        return -losses.mean()
    with torch.no_grad():
        n_classes, flat = outputs.shape[1], torch.empty_like(outputs)
        for row, (label, p) in enumerate(zip(y, outputs.softmax(1), strict=True)):
            flat[row] = (1 - p[label]) / (n_classes - 1)
            flat[row, label] = p[label]
    is_wrong = outputs.argmax(1) != y
    return (is_wrong * functional.cross_entropy(outputs, flat, reduction="none") - losses).mean()


def _hamp_loss(recipe, outputs, y):
    """Divergence from labels of the wanted entropy, less the weighted entropy of the outputs."""
    n_classes = outputs.shape[1]

    def labels_of(own):
        return np.array([own, *[(1 - own) / (n_classes - 1)] * (n_classes - 1)])

    own = optimize.brentq(
        lambda p: entropy(labels_of(p)) - recipe.label_entropy * np.log(n_classes), 1 / n_classes, 1 - 1e-12
    )
    labels = torch.full_like(outputs, (1 - own) / (n_classes - 1))
    labels[torch.arange(len(y)), y] = own
    predicted = torch.distributions.Categorical(logits=outputs)
    divergence = functional.kl_div(outputs.log_softmax(1), labels, reduction="batchmean")
    return divergence - recipe.entropy_weight * predicted.entropy().mean()


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
