"""Every shipped network, through the same checks."""

import numpy as np
import pytest
import torch
from torch import nn

from leakscope.errors import InputError
from leakscope.models.registry import NETS, build, digest_of_net, factory
from leakscope.recipe import Recipe
from leakscope.train.loop import choose_trainer, inputs_from, train_block
from leakscope.types import Design, Records

SHAPES = {
    "linear": [(1,), (5,), (2, 3), (3, 8, 8)],
    "mlp": [(1,), (5,), (2, 3), (3, 8, 8)],
    "cnn": [(1, 4, 4), (3, 8, 8), (1, 28, 28), (3, 9, 13)],
    "deep_cnn": [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 9, 13)],
    "resnet18": [(1, 8, 8), (1, 28, 28), (3, 32, 32)],
    "wide_resnet": [(1, 8, 8), (1, 28, 28), (3, 32, 32)],
}
SMALL = {  # options that keep a test short
    "cnn": (("channels", 4),),
    "deep_cnn": (("channels", 4),),
    "resnet18": (("channels", 4),),
    "wide_resnet": (("depth", 10), ("widen", 1)),
}
CASES = [(net, shape) for net in NETS for shape in SHAPES[net]]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def test_every_net_is_here():
    assert set(SHAPES) == set(NETS)
    assert list(NETS) == sorted(NETS)


@pytest.mark.parametrize(("net", "shape"), CASES)
@pytest.mark.parametrize("n_outputs", [1, 4])
def test_it_builds_and_answers_with_one_output_a_class(net, shape, n_outputs):
    module = build(Recipe(net=net, net_options=SMALL.get(net, ())), shape, n_outputs)
    outputs = module(torch.randn(6, *shape))
    assert outputs.shape == (6, n_outputs)
    assert outputs.isfinite().all()


@pytest.mark.parametrize(("net", "shape"), CASES)
def test_an_evaluated_answer_does_not_depend_on_the_other_rows(net, shape):
    module = build(Recipe(net=net, net_options=SMALL.get(net, ())), shape, 3).eval()
    x = torch.randn(5, *shape)
    torch.testing.assert_close(module(x)[2:3], module(x[2:3]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("net", "shape"), CASES)
def test_the_seed_decides_the_weights_and_every_parameter_matters(net, shape):
    def weights(seed):
        torch.manual_seed(seed)
        module = build(Recipe(net=net, net_options=SMALL.get(net, ())), shape, 3)
        return module, torch.cat([p.detach().flatten() for p in module.parameters()])

    module, first = weights(0)
    assert torch.equal(first, weights(0)[1])
    assert not torch.equal(first, weights(1)[1])
    module(torch.randn(8, *shape)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


@pytest.mark.parametrize("net", NETS)
def test_its_function_says_what_it_is(net):
    assert factory(net).__name__ == net
    assert factory(net).__doc__


@pytest.mark.parametrize("net", NETS)
def test_its_digest_is_stable_within_a_run(net):
    recipe, shape = Recipe(net=net), SHAPES[net][-1]
    first, second = (digest_of_net(build(recipe, shape, 3)) for _ in range(2))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_it_trains_and_fits_its_members(net):
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 3
    features = (rng.normal(size=(24, 1, 8, 8)) + 0.5 * labels[:, None, None, None]).astype(np.float32)
    records = Records(features, labels, np.arange(24).astype(str), class_names=("a", "b", "c"))
    options = SMALL.get(net, ())
    recipe = Recipe(net=net, net_options=options, lr=0.02, batch_size=8, epochs=15, checkpoints=(1, 15))
    inputs = inputs_from(records, torch.device("cpu"))
    trainer, note = choose_trainer(recipe, inputs)
    assert note is None
    design = Design(np.ones((2, 24), dtype=bool))
    found = train_block(inputs, design, recipe, np.arange(2), 0, ("loss",), trainer).signals["loss"]
    assert (found[:, 1].mean(axis=1) < 0.5 * found[:, 0].mean(axis=1)).all()


def test_the_published_architectures_have_their_published_sizes():
    """In millions: ResNet-18 for small images 11.17, WRN-28-10 36.5, WRN-28-2 1.47."""

    def n_parameters(net, **options):
        module = build(Recipe(net=net, net_options=tuple(options.items())), (3, 32, 32), 10)
        return sum(p.numel() for p in module.parameters())

    assert n_parameters("resnet18") == 11_173_962
    assert n_parameters("wide_resnet") == 1_467_610
    assert n_parameters("wide_resnet", widen=10) == 36_479_194


def test_a_wide_resnet_has_as_many_convolutions_as_its_name_says():
    for depth in (10, 16, 28):
        module = build(Recipe(net="wide_resnet", net_options=(("depth", depth),)), (3, 32, 32), 10)
        layers = [m for m in module.modules() if isinstance(m, nn.Linear | nn.Conv2d) and _is_counted(m)]
        assert len(layers) == depth - 2  # the name also counts the input and one shortcut a stage


def _is_counted(layer):
    return not isinstance(layer, nn.Conv2d) or layer.kernel_size == (3, 3)


@pytest.mark.parametrize("options", [{"depth": 12}, {"depth": 4}, {"widen": 0}])
def test_a_wide_resnet_that_cannot_be_is_refused(options):
    with pytest.raises(InputError, match="depth must be 6n"):
        build(Recipe(net="wide_resnet", net_options=tuple(options.items())), (3, 32, 32), 10)


@pytest.mark.parametrize("net", ["deep_cnn", "resnet18", "wide_resnet"])
@pytest.mark.parametrize("shape", [(5,), (3, 7, 32)])
def test_what_is_no_image_is_refused(net, shape):
    with pytest.raises(InputError, match=f"{net}: "):
        build(Recipe(net=net), shape, 10)
