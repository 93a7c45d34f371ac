"""DP-SGD by four trainers, and by a plain loop over single records: all end with the same parameters."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from leakscope.design import make_design
from leakscope.engine.request import TrainingRequest
from leakscope.errors import InputError
from leakscope.privacy.settings import Privacy, PrivacySpent
from leakscope.recipe import Recipe, Treatment
from leakscope.train.dense import DenseStack
from leakscope.train.loop import choose_trainer, initial_nets, inputs_from, train_block
from leakscope.train.noise import Noise
from leakscope.train.poisson import NOBODY, PoissonPlan, plan_of
from leakscope.train.side_by_side import SerialModel, SideBySide
from leakscope.train.stacked import VmapStack

from .problems import (
    CPU,
    assert_same_state,
    class_records,
    image_records,
    mlp_recipe,
    plain_optimizer,
    real_records,
    trained,
    trained_state,
    unequal_design,
)

MAKERS = {"dense": DenseStack, "stacked": VmapStack, "serial": SerialModel, "side by side": SideBySide}
PRIVACY = Privacy(noise_multiplier=0.7, clip=0.8)
SEED = 3


def by_single_records(records, design, recipe, model, clipped_more=()):
    """The definition: one backward pass per record, clipped, summed, noise added, divided."""
    inputs, models = inputs_from(records, CPU), np.array([model])
    (net,) = initial_nets(recipe, inputs, models, SEED)
    plan = plan_of(design, None, models, recipe, SEED)
    assert isinstance(plan, PoissonPlan)
    parameters = list(net.parameters())
    optimizer = plain_optimizer(recipe, parameters)
    sigma = recipe.privacy.noise_multiplier * recipe.privacy.clip
    noise = Noise(SEED, models, [tuple(p.shape) for p in parameters], sigma, CPU)
    for epoch, order in enumerate(plan.epochs(recipe.epochs)):
        for step, batch in enumerate(order[:, 0]):
            summed = [torch.zeros_like(p) for p in parameters]
            for record in batch[batch != NOBODY]:
                part = recipe.treatment.weight if record in clipped_more else 1.0
                _add_clipped(summed, net, inputs.x[record], inputs.y[record], recipe, part)
            noise.add_([g[None] for g in summed])
            for p, g in zip(parameters, summed, strict=True):
                p.grad = g / plan.sampling.batch_size
            optimizer.param_groups[0]["lr"] = recipe.lr * recipe.lr_factor(epoch + step / plan.steps)
            optimizer.step()
    return {name: p.detach()[None] for name, p in net.named_parameters()}


def _add_clipped(summed, net, x, y, recipe, part):
    outputs = net(x[None])
    if y.is_floating_point():
        loss = (outputs[0, 0] - y).square()
    else:
        loss = F.cross_entropy(outputs, y[None], label_smoothing=recipe.label_smoothing)
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    for total, g in zip(summed, gradients, strict=True):
        total += g * min(1.0, float(part * recipe.privacy.clip / norm))


def reference(records, design, recipe):
    states = [by_single_records(records, design, recipe, m) for m in range(design.n_models)]
    return {name: torch.cat([s[name] for s in states]) for name in states[0]}


SETTINGS = {
    "sgd": {},
    "depth 2, tanh": {"options": {"activation": "tanh", "depth": 2}},
    "momentum and decay": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "adam": {"optimizer": "adam", "lr": 0.01},
    "adamw, cosine": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1, "schedule": "cosine"},
    "label smoothing": {"label_smoothing": 0.2},
    "batches of one": {"batch_size": 1, "lr": 0.01},
    "all members": {"batch_size": 1000},
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", SETTINGS)
def test_every_trainer_follows_the_definition(name, maker):
    records, recipe = class_records(), mlp_recipe(privacy=PRIVACY, epochs=2, **SETTINGS[name])
    design = make_design("bernoulli", 3, len(records), seed=1)
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, reference(records, design, recipe), rtol=1e-4, atol=1e-5)


CLIP_MORE = Treatment("clip_more", "listed", weight=0.1, records=tuple(range(0, 40, 3)))


@pytest.mark.parametrize("maker", MAKERS)
def test_flagged_members_are_clipped_more_by_every_trainer(maker):
    records, recipe = class_records(), mlp_recipe(privacy=PRIVACY, epochs=2, treatment=CLIP_MORE)
    design = make_design("bernoulli", 3, len(records), seed=1)
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    states = [by_single_records(records, design, recipe, m, CLIP_MORE.records) for m in range(3)]
    wanted = {name: torch.cat([state[name] for state in states]) for name in states[0]}
    assert_same_state(found, wanted, rtol=1e-4, atol=1e-5)
    plain = reference(records, design, replace(recipe, treatment=None))
    assert max(float((plain[name] - wanted[name]).abs().max()) for name in plain) > 0.01


@pytest.mark.parametrize("restart", [True, False])
def test_a_part_of_one_clips_as_without_treatment(restart):
    """The early window leaves no trace, and training goes on with the noise and the batches that follow."""
    treatment = Treatment("clip_more", weight=1.0, share=0.3, epochs=2, restart=restart)
    made = mlp_recipe(privacy=PRIVACY, epochs=5)
    records, design = class_records(), make_design("bernoulli", 3, len(class_records()), seed=1)
    treated, plain = (
        train_block(inputs_from(records, CPU), design, recipe, np.arange(3), SEED, ("logits",), "dense")
        for recipe in (replace(made, treatment=treatment), made)
    )
    np.testing.assert_allclose(treated.signals["logits"], plain.signals["logits"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("choice", ["early", "random"])
def test_trainers_agree_on_who_is_clipped_more(choice):
    treatment = Treatment("clip_more", choice, share=0.3, weight=0.1)
    made = mlp_recipe(privacy=PRIVACY, epochs=4, treatment=treatment)
    records, design = class_records(), make_design("bernoulli", 3, len(class_records()), seed=1)
    found = [
        train_block(inputs_from(records, CPU), design, made, np.arange(3), SEED, ("logits",), trainer)
        for trainer in ("dense", "stacked", "serial", "side_by_side")
    ]
    for one in found[1:]:
        np.testing.assert_allclose(one.signals["logits"], found[0].signals["logits"], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("choice", "is_guaranteed"), [("listed", True), ("early", False), ("random", False)])
def test_a_guarantee_is_stated_only_where_nobody_else_decides_who_is_flagged(choice, is_guaranteed):
    records = class_records()
    listed = {"records": (0, 3)} if choice == "listed" else {}
    recipe = mlp_recipe(
        privacy=Privacy(epsilon=8.0), epochs=4, treatment=Treatment("clip_more", choice, **listed)
    )
    design = make_design("balanced", 4, len(records), seed=1)
    identity = TrainingRequest(records, design, recipe, SEED, ("loss",), "cpu").identity
    assert (PrivacySpent.of_recipe(identity.recipe) is not None) == is_guaranteed


@pytest.mark.parametrize("how", ["leave_out", "down_weight"])
def test_other_treatments_do_not_go_with_dp_sgd(how):
    with pytest.raises(InputError, match="how='clip_more'"):
        mlp_recipe(privacy=PRIVACY, epochs=4, treatment=Treatment(how))
    with pytest.raises(InputError, match="needs DP-SGD, which clips"):
        mlp_recipe(epochs=4, treatment=Treatment("clip_more"))
    with pytest.raises(InputError, match="a clipping norm is above 0"):
        Treatment("clip_more", weight=0.0)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_regression_target_is_private_too(maker):
    records, recipe = real_records(), mlp_recipe(privacy=PRIVACY, epochs=2)
    design = unequal_design((20, 13), len(records))
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, reference(records, design, recipe), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("maker", ["stacked", "serial", "side by side"])
def test_a_network_with_convolutions_and_group_norm_follows_the_definition(maker):
    options = (("channels", 4), ("norm", "group"))
    recipe = Recipe(net="cnn", net_options=options, optimizer="sgd", lr=0.1, batch_size=6, epochs=2,
                    privacy=PRIVACY)  # fmt: skip
    records = image_records()
    design = make_design("balanced", 2, len(records), seed=1)
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, reference(records, design, recipe), rtol=1e-4, atol=1e-5)


def test_a_model_is_the_same_in_any_block():
    records, recipe = class_records(), mlp_recipe(privacy=PRIVACY, epochs=2)
    design = make_design("bernoulli", 4, len(records), seed=1)
    together = trained(DenseStack, records, design, recipe).state()
    for model in range(4):
        alone = trained(DenseStack, records, design, recipe, np.array([model])).state()
        assert_same_state(alone, {n: t[model : model + 1] for n, t in together.items()}, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("maker", ["stacked", "serial"])
def test_gradients_of_views_are_averaged_before_clipping(maker):
    """With a clip that nothing reaches and no noise to speak of, views are an average of gradients."""
    quiet = Privacy(noise_multiplier=1e-9, clip=1e4, views=3)
    recipe = Recipe(net="cnn", net_options=(("channels", 2), ("norm", "group")), optimizer="sgd", lr=0.1,
                    batch_size=1000, epochs=2, flips=True, crop=1, privacy=quiet)  # fmt: skip
    records = image_records()
    design = unequal_design((12,), len(records))
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    wanted = _by_views(records, design, recipe)
    assert_same_state(found, wanted, rtol=1e-3, atol=1e-5)


def _by_views(records, design, recipe):
    from leakscope.train.augment import padded, views_at, views_of

    inputs, models = inputs_from(records, CPU), np.array([0])
    (net,) = initial_nets(recipe, inputs, models, SEED)
    plan = plan_of(design, None, models, recipe, SEED)
    optimizer = plain_optimizer(recipe, list(net.parameters()))
    for epoch, order in enumerate(plan.epochs(recipe.epochs)):
        views = views_of(recipe, models, SEED, order != NOBODY, epoch)
        assert views.top.shape == (*order.shape, 3)
        index = torch.from_numpy(order[0])
        x = views_at(padded(inputs.x, 1), index, type(views)(*(v[0] for v in views)), 1)[0]
        assert len({tuple(v.flatten().tolist()) for v in x[0]}) > 1, "views of one record differ"
        optimizer.zero_grad()
        F.cross_entropy(net(x.flatten(0, 1)), inputs.y[index[0]].repeat_interleave(3)).backward()
        optimizer.step()
    return {name: p.detach()[None] for name, p in net.named_parameters()}


class TestSensitivity:
    """What the guarantee rests on: one record more changes the noiseless sum by at most the clipping norm."""

    @pytest.mark.parametrize("maker", MAKERS)
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
    def test_no_record_weighs_more_than_the_clipping_norm(self, maker, scale):
        records = class_records(n=12)
        inputs = inputs_from(records, CPU)
        recipe = mlp_recipe(privacy=PRIVACY)
        make = MAKERS[maker]
        stack = make(initial_nets(recipe, inputs, np.arange(1), 0), _objective(recipe), CPU)
        x, y = inputs.x[None, :, None] * scale, inputs.y[None]
        for clip in (0.1, 2.0):
            for record in range(len(records)):
                weight = torch.zeros(1, len(records))
                weight[0, record] = 1
                summed = stack.clipped_gradients(x, y, weight, clip)
                norm = torch.cat([g.flatten() for g in summed]).norm()
                assert norm <= clip * (1 + 1e-5)

    def test_the_step_is_divided_by_the_expected_size_not_by_the_size(self):
        records = class_records()
        plan = PoissonPlan(make_design("balanced", 2, len(records), 0), np.arange(2), 8, 0)
        (order,) = plan.epochs(1)
        weights = plan.weights(order)
        assert set(np.unique(weights).tolist()) == {0.0, 0.125}
        assert len({(w > 0).sum() for w in weights.reshape(-1, weights.shape[2])}) > 1


def _objective(recipe):
    from leakscope.train.losses import Objective

    return Objective.of(recipe)


class MixesRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x - x.mean(0))


class RemembersRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("average", torch.zeros(5))

    def forward(self, x):
        if self.training:
            self.average.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.layer(x)


def mixes_rows(input_shape, n_classes):
    return MixesRows()


def remembers_rows(input_shape, n_classes):
    return RemembersRows()


@pytest.mark.parametrize(
    ("net", "options", "why"),
    [
        ("mlp", (("norm", "batch"),), 'set norm = "group"'),
        ("tests.train.test_dp_sgd:mixes_rows", (), "depends on the other records of the batch"),
        ("tests.train.test_dp_sgd:remembers_rows", (), "buffer 'average' changes with the records"),
    ],
)
@pytest.mark.parametrize("trainer", ["auto", "serial"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_networks_that_would_leak_past_the_noise_are_refused(net, options, why, trainer, precision):
    recipe = Recipe(net=net, net_options=options, privacy=PRIVACY, trainer=trainer, precision=precision)
    with pytest.raises(InputError, match=why):
        choose_trainer(recipe, inputs_from(class_records(), CPU))


@pytest.mark.parametrize(
    ("recipe", "trainer"),
    [
        (mlp_recipe(privacy=PRIVACY), "dense"),
        (mlp_recipe(privacy=PRIVACY, options={"norm": "group", "width": 8}), "stacked"),
        (mlp_recipe(privacy=PRIVACY, options={"dropout": 0.2}), "stacked"),
        (Recipe(net="tests.train.nets:tied", privacy=PRIVACY), "stacked"),
        (Recipe(net="tests.train.nets:half_frozen", privacy=PRIVACY), "stacked"),
        (Recipe(net="tests.train.nets:drops_by_itself", privacy=PRIVACY), "serial"),
    ],
)
def test_other_networks_train_privately(recipe, trainer):
    records = class_records()
    inputs, design = inputs_from(records, CPU), make_design("balanced", 2, len(records), 0)
    chosen, _ = choose_trainer(recipe, inputs)
    assert chosen == trainer
    block = train_block(inputs, design, recipe, np.arange(2), 0, ("loss",), chosen)
    assert not block.diverged_at.any()


def test_dropout_masks_differ_between_rows_and_steps():
    """Rows that are passed one by one must not share a mask, nor get the same one at every step."""
    from leakscope.train.clipping import ClippedSum, Weights
    from leakscope.train.dropout import SeededDropout
    from leakscope.train.losses import PLAIN

    class Odd(nn.Linear):
        """A subclass, which is passed row by row."""

    net = nn.Sequential(SeededDropout(0.5, 0, 17), Odd(64, 2))
    weights = Weights([p.detach() for p in net.parameters()], {}, dict(net.named_buffers()))
    clipped = ClippedSum([name for name, _ in net.named_parameters()], PLAIN)
    x, y = torch.ones(2, 1, 64), torch.zeros(2, dtype=torch.int64)
    clipped.prepare(net, weights, x, y)
    masks = []
    for _ in range(2):
        key = int(net[0].key)
        for row in range(2):
            net[0].key.fill_(key)
            weight = torch.eye(2)[row]
            gradient, _ = clipped(net, weights, x, y, weight, 1e9)
            masks.append(tuple((gradient[0] != 0).tolist()))
    assert len(set(masks)) == 4
    assert all(16 < sum(mask) < 48 for mask in masks)
