"""Three ways to get gradients, and a plain torch loop: all end with the same parameters."""

import numpy as np
import pytest
import torch
from torch import nn

from leakscope.design import make_design
from leakscope.recipe import Recipe
from leakscope.train.dense import DenseStack, dense_layers
from leakscope.train.loop import initial_nets, inputs_from
from leakscope.train.losses import PLAIN, Objective
from leakscope.train.side_by_side import SerialModel, SideBySide
from leakscope.train.stacked import VmapStack
from leakscope.types import Design

from .problems import (
    CPU,
    assert_same_state,
    class_records,
    image_records,
    mlp_recipe,
    plain_net,
    plain_state,
    real_records,
    trained,
    trained_state,
    unequal_design,
)

SETTINGS = {
    "relu": {},
    "linear": {"net": "linear"},
    "tanh, depth 2": {"options": {"activation": "tanh", "depth": 2}},
    "depth 3": {"options": {"depth": 3, "width": 6}},
    "narrow": {"options": {"width": 2}},
    "label smoothing": {"label_smoothing": 0.2},
    "mixup": {"mixup": 0.4, "epochs": 2},
    "relaxed": {"relax_loss": 1.0, "epochs": 4, "lr": 0.2},
    "soft labels and entropy": {"label_entropy": 0.6, "entropy_weight": 0.1},
    "momentum and decay": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "adam": {"optimizer": "adam", "lr": 0.01},
    "adamw, cosine": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1, "schedule": "cosine"},
    "step": {"schedule": "step", "step_epochs": (1,), "epochs": 2},
    "one batch": {"batch_size": 1000},
    "batches of one": {"batch_size": 1, "lr": 0.01},
}
MAKERS = {"dense": DenseStack, "stacked": VmapStack, "serial": SerialModel, "side by side": SideBySide}


def recipe_of(name):
    settings = dict(SETTINGS[name])
    if settings.get("net") == "linear":
        return Recipe(optimizer="sgd", lr=0.05, batch_size=8, epochs=1, **settings)
    return mlp_recipe(**settings)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", SETTINGS)
def test_one_epoch_ends_where_a_plain_loop_ends(name, maker):
    records, recipe = class_records(), recipe_of(name)
    design = make_design("balanced", 4, len(records), seed=1)
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, plain_state(records, design, recipe), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_models_of_unequal_sizes_stand_still_when_they_have_no_batch(optimizer, maker):
    """Model sizes 21, 8, 3 and 16 in batches of 8: three steps for the largest, one for the smallest."""
    records = class_records()
    recipe = mlp_recipe(optimizer=optimizer, lr=0.02, epochs=3, weight_decay=0.1,
                        momentum=0.9 if optimizer == "sgd" else 0.0)  # fmt: skip
    design = unequal_design((21, 8, 3, 16), len(records))
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, plain_state(records, design, recipe), rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_bernoulli_design_trains_like_a_plain_loop(maker):
    records, recipe = class_records(), mlp_recipe(batch_size=4, epochs=2)
    design = make_design("bernoulli", 5, len(records), seed=2)
    assert np.ptp(design.in_mask.sum(axis=1)) > 4, "the design should leave some models idle"
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, plain_state(records, design, recipe), rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("options", [{}, {"activation": "tanh", "depth": 2}])
def test_a_regression_target_trains_like_a_plain_loop(options, maker):
    records, recipe = real_records(), mlp_recipe(options=options, lr=0.02, epochs=2)
    design = unequal_design((20, 13), len(records))
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, plain_state(records, design, recipe), rtol=1e-5, atol=3e-6)


def test_training_moves_the_parameters():
    """Else all of the above could agree on doing nothing."""
    records, design = class_records(), Design(np.ones((1, 40), dtype=bool))
    before = trained_state(DenseStack, records, design, mlp_recipe(lr=1e-12))
    after = trained_state(DenseStack, records, design, mlp_recipe())
    assert all((after[name] - before[name]).abs().max() > 1e-3 for name in before)


def cnn_recipe(**changes):
    return Recipe(net="cnn", net_options=(("channels", 3),), optimizer="sgd", lr=0.05, momentum=0.9,
                  batch_size=4, epochs=2, **changes)  # fmt: skip


def test_a_cnn_with_batch_norm_is_the_same_stacked_serial_and_plain():
    records = image_records()
    design = unequal_design((12, 12, 12), len(records))  # whole batches: a plain loop fills nothing up
    recipe = cnn_recipe()
    stacked = trained_state(VmapStack, records, design, recipe)
    serial = trained_state(SerialModel, records, design, recipe, alone=True)
    side_by_side = trained_state(SideBySide, records, design, recipe)
    assert_same_state(stacked, serial, rtol=1e-4, atol=1e-5)
    assert_same_state(side_by_side, serial, rtol=1e-4, atol=1e-5)
    assert_same_state(serial, plain_state(records, design, recipe), rtol=1e-4, atol=1e-5)


def test_batch_norm_statistics_are_each_model_s_own_and_stand_still_when_idle():
    records, recipe = image_records(), cnn_recipe()
    design = unequal_design((12, 4, 9), len(records))
    stacked = trained(VmapStack, records, design, recipe)
    names = [name for name, _ in plain_net(records, design, recipe, 0).named_buffers()]
    n_batches = dict(zip(names, stacked.buffers, strict=True))["1.num_batches_tracked"]
    assert n_batches.tolist() == [6, 2, 6]  # two epochs of 3, 1 and 3 batches
    for m in range(3):
        alone = trained(SerialModel, records, design, recipe, np.array([m]))
        for name, together, own in zip(names, stacked.buffers, alone.buffers, strict=True):
            torch.testing.assert_close(together[m], own[0], rtol=1e-4, atol=1e-5, msg=name)


def test_running_statistics_are_those_of_a_plain_loop():
    records, recipe = image_records(), cnn_recipe()
    design = unequal_design((12, 8), len(records))
    stacked = trained(VmapStack, records, design, recipe)
    for m in range(2):
        wanted = plain_net(records, design, recipe, m)
        for together, (name, own) in zip(stacked.buffers, wanted.named_buffers(), strict=True):
            torch.testing.assert_close(together[m], own, rtol=1e-4, atol=1e-5, msg=name)


DROPOUTS = {
    "mlp": lambda: mlp_recipe(options={"dropout": 0.5, "depth": 2}, epochs=2),
    "channels": lambda: Recipe(net="tests.train.nets:dropped_channels", optimizer="sgd", lr=0.05,
                               batch_size=4, epochs=2),
}  # fmt: skip


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_masks_are_the_same_stacked_and_serial(name):
    recipe = DROPOUTS[name]()
    records = image_records() if name == "channels" else class_records(24)
    design = unequal_design((12, 4, 9), len(records))
    stacked = trained(VmapStack, records, design, recipe)
    serial = trained_state(SerialModel, records, design, recipe, alone=True)
    assert_same_state(stacked.state(), serial, rtol=1e-4, atol=1e-5)
    keys = [trained(SerialModel, records, design, recipe, np.array([m])).buffers for m in range(3)]
    for layer, together in enumerate(stacked.buffers):
        assert together.tolist() == [int(own[layer]) for own in keys]


def test_dropout_changes_training():
    records, design = class_records(), Design(np.ones((2, 40), dtype=bool))
    with_dropout = mlp_recipe(options={"dropout": 0.5})
    as_is = trained_state(VmapStack, records, design, mlp_recipe())["1.weight"]
    dropped = trained_state(VmapStack, records, design, with_dropout)["1.weight"]
    assert (as_is - dropped).abs().max() > 1e-3


@pytest.mark.parametrize("maker", ["stacked", "serial"])
def test_frozen_parameters_stay_and_the_others_train(maker):
    records = class_records()
    design = unequal_design((20, 20), len(records))
    recipe = Recipe(net="tests.train.nets:half_frozen", optimizer="sgd", lr=0.1, weight_decay=0.1, epochs=1)
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    wanted = plain_state(records, design, recipe)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-5, atol=2e-6)
    start = plain_state(records, design, Recipe(net=recipe.net, optimizer="sgd", lr=1e-30, epochs=1))
    torch.testing.assert_close(found["0.weight"], start["0.weight"], rtol=0, atol=0)
    assert (found["2.weight"] != start["2.weight"]).any()


@pytest.mark.parametrize("maker", ["stacked", "serial"])
def test_a_weight_used_twice_is_one_weight(maker):
    records = class_records()
    design = unequal_design((20, 20), len(records))
    recipe = Recipe(net="tests.train.nets:tied", optimizer="sgd", lr=0.1, epochs=1)
    found = trained_state(MAKERS[maker], records, design, recipe, alone=maker == "serial")
    assert_same_state(found, plain_state(records, design, recipe), rtol=1e-5, atol=2e-6)


class TestGradients:
    """The hand-written gradients against autograd, also where rows weigh differently."""

    @pytest.mark.parametrize("smoothing", [0.0, 0.3])
    def test_output_gradient_of_classes(self, smoothing):
        rng = torch.Generator().manual_seed(0)
        z = torch.randn(
            2, 4, 6, generator=rng, dtype=torch.float64
        ).requires_grad_()  # (models, classes, rows)
        y = torch.randint(0, 4, (2, 6), generator=rng)
        weight = torch.rand(2, 6, generator=rng, dtype=torch.float64)
        loss = sum((Objective(smoothing).row_losses(z[m].T, y[m]) * weight[m]).sum() for m in range(2))
        (wanted,) = torch.autograd.grad(loss, z)
        torch.testing.assert_close(
            Objective(smoothing).output_gradient_(z.detach().clone(), y, weight), wanted
        )

    def test_output_gradient_of_real_labels(self):
        rng = torch.Generator().manual_seed(0)
        z = torch.randn(2, 1, 6, generator=rng).requires_grad_()
        y, weight = torch.randn(2, 6, generator=rng), torch.rand(2, 6, generator=rng)
        (wanted,) = torch.autograd.grad(((z[:, 0] - y).square() * weight).sum(), z)
        torch.testing.assert_close(PLAIN.output_gradient_(z.detach().clone(), y, weight), wanted)

    @pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
    def test_dense_gradients_are_autograd_s_also_on_a_second_batch_of_another_size(self, activation):
        torch.manual_seed(0)
        nets = [nn.Sequential(nn.Linear(5, 9), activation(), nn.Linear(9, 4), activation(), nn.Linear(4, 3))
                for _ in range(2)]  # fmt: skip
        dense, stacked = DenseStack(nets, Objective(0.1), CPU), VmapStack([*nets], Objective(0.1), CPU)
        for rows in (6, 6, 4):
            x, y = torch.randn(2, rows, 5), torch.randint(0, 3, (2, rows))
            weight = torch.rand(2, rows)
            named = zip(dense.state(), dense.gradients(x, y, weight), strict=True)
            for (name, found), wanted in zip(named, stacked.gradients(x, y, weight), strict=True):
                if found.shape != wanted.shape:  # kept the other way round
                    found = found[..., 0] if name.endswith("bias") else found.transpose(1, 2)
                torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6, msg=name)
            torch.testing.assert_close(dense.outputs(x), stacked.outputs(x), rtol=1e-5, atol=1e-6)


class TestDenseLayers:
    def test_plain_perceptrons_are_taken_apart(self):
        net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        assert dense_layers(net) == [(net[1], nn.ReLU), (net[3], None)]
        assert dense_layers(nn.Sequential(net[1])) == [(net[1], None)]

    @pytest.mark.parametrize(
        "net",
        [
            nn.Linear(4, 2),
            nn.Sequential(),
            nn.Sequential(nn.Linear(4, 2), nn.ReLU()),
            nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)),
            nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 2)),
            nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(3, 2)),
            nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)),
            nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2)),
        ],
        ids=str,
    )
    def test_anything_else_is_left_to_the_other_trainers(self, net):
        assert dense_layers(net) is None

    def test_a_sequence_with_its_own_forward_is_not_plain(self):
        class Doubled(nn.Sequential):
            def forward(self, x):
                return 2 * super().forward(x)

        assert dense_layers(Doubled(nn.Linear(4, 2))) is None

    def test_a_frozen_layer_is_not_plain(self):
        net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        net[0].weight.requires_grad_(False)
        assert dense_layers(net) is None

    def test_a_layer_used_twice_is_not_plain(self):
        layer = nn.Linear(4, 4)
        assert dense_layers(nn.Sequential(layer, nn.ReLU(), layer)) is None


class ChannelsLast(nn.Module):
    """A user's net that lays out its images itself: gradients of its weights are strided unlike them."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(3, 3)

    def forward(self, x):
        return self.head(self.conv(x.contiguous(memory_format=torch.channels_last)).mean((2, 3)))


def test_gradients_in_another_layout_reach_the_right_weights():
    """The optimizer's kernels go by memory: with other strides they would move the wrong weights."""
    torch.manual_seed(0)
    net = ChannelsLast()
    x, y = torch.randn(1, 6, 2, 8, 8), torch.arange(6)[None] % 3
    stack = SerialModel([net], PLAIN, CPU)
    (found, *_) = stack.gradients(x, y, torch.full((1, 6), 1 / 6))
    assert found.stride() == stack.parameters[0].stride()
    loss = nn.functional.cross_entropy(net(x[0]), y[0])
    torch.testing.assert_close(found[0], torch.autograd.grad(loss, net.conv.weight)[0])


def test_training_in_bfloat16_has_nearly_the_same_gradients_and_answers_in_float32():
    records = image_records()
    inputs, batch = inputs_from(records, CPU), torch.arange(8)
    arguments = (inputs.x[batch][None], inputs.y[batch][None], torch.full((1, 8), 1 / 8))
    exact, rough = (
        SideBySide(initial_nets(cnn_recipe(precision=p), inputs, np.array([0]), 0), PLAIN, CPU)
        for p in ("float32", "bfloat16")
    )
    a, b = (torch.cat([g.flatten() for g in stack.gradients(*arguments)]) for stack in (exact, rough))
    assert b.dtype == torch.float32
    assert 0 < (a - b).norm() < 0.05 * a.norm()
    answers = rough.outputs(arguments[0])
    assert answers.dtype == torch.float32
    assert not torch.equal(answers, answers.bfloat16().float())
