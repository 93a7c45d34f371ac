import sys
from textwrap import dedent

import pytest
import torch
from torch import nn

from leakscope.code_identity.walk import code_identity
from leakscope.errors import InputError
from leakscope.models.registry import build, code_of_net, digest_of_net, factory
from leakscope.recipe import Recipe


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Writes a user's module; gives its name. A rewritten one is what a later run would import."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source, name="my_nets_for_a_test"):
        (tmp_path / f"{name}.py").write_text(dedent(source))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    yield write
    for name in [n for n in sys.modules if n.startswith("my_nets_for_a_test")]:
        monkeypatch.delitem(sys.modules, name)


SMALL = """
    from torch import nn

    def small(input_shape, n_classes, width=4):
        layers = nn.Linear(input_shape[0], width), nn.GELU(), nn.Linear(width, n_classes)
        return nn.Sequential(nn.Flatten(), *layers)

    not_a_function = 3

    def forgetful(input_shape, n_classes):
        return None
"""


def test_a_user_s_factory_is_called_with_shape_classes_and_options(own_module):
    name = own_module(SMALL)
    net = build(Recipe(net=f"{name}:small", net_options=(("width", 9),)), (5,), 3)
    assert net[1].weight.shape == (9, 5)
    assert net(torch.zeros(2, 5)).shape == (2, 3)


@pytest.mark.parametrize(
    ("net", "problem"),
    [
        ("mpl", r"net='mpl' is unknown; did you mean 'mlp'\? choose one of cnn, .*mlp, "),
        ("transformer", "net='transformer' is unknown; choose one of cnn, "),
        ("no_such_package_here:f", "cannot be imported .*no_such_package_here.* install it"),
        ("math:no_such_function", "cannot be imported .*no_such_function"),
        (
            "nets_of_mine.py:build",
            "write for example 'nets_of_mine:build', and run leakscope from the folder",
        ),
        ("math:", "net='math:' cannot be imported"),
        (":f", "net=':f' cannot be imported"),
    ],
)
def test_a_net_that_is_not_there_is_refused(net, problem):
    with pytest.raises(InputError, match=problem):
        factory(net)


def test_no_guess_is_offered_for_a_name_like_no_other():
    with pytest.raises(InputError) as caught:
        factory("transformer")
    assert "did you mean" not in str(caught.value).lower()


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        ("not_a_function", (), "'int' object is not callable"),
        ("forgetful", (), "returned NoneType, expected a torch.nn.Module"),
        ("small", (("depth", 3),), "net='.*:small': 'depth' is not an option of small"),
    ],
)
def test_a_factory_that_does_not_make_a_network_is_refused(own_module, function, options, problem):
    name = own_module(SMALL)
    with pytest.raises(InputError, match=problem):
        build(Recipe(net=f"{name}:{function}", net_options=options), (5,), 3)


@pytest.mark.parametrize(
    ("net", "options", "shape", "problem"),
    [
        ("mlp", {"width": 0}, (5,), "mlp: width=0, depth=1: both must be at least 1"),
        ("mlp", {"depth": 0}, (5,), "depth=0"),
        ("mlp", {"activation": "swish"}, (5,), "activation='swish': choose one of relu, tanh"),
        ("mlp", {"dropout": 1.5}, (5,), r"net='mlp' with options \{'dropout': 1.5\}: dropout probability"),
        ("mlp", {"width": "wide"}, (5,), "net='mlp' with options"),
        ("mlp", {"heads": 2}, (5,), "'heads' is not an option of mlp; it takes width, depth, activation"),
        ("linear", {"width": 2}, (5,), "'width' is not an option of linear; it takes none"),
        ("cnn", {}, (5,), r"cnn: records must be images .* got shape \(5,\)"),
        ("cnn", {}, (1, 3, 9), r"at least 4 x 4, got shape \(1, 3, 9\); use net='mlp'"),
    ],
)
def test_wrong_options_of_a_shipped_net_are_refused(net, options, shape, problem):
    with pytest.raises(InputError, match=problem):
        build(Recipe(net=net, net_options=tuple(options.items())), shape, 3)


def layers(net):
    return [type(m).__name__ for m in net]


def test_an_mlp_has_depth_hidden_layers_of_its_width():
    options = (("width", 7), ("depth", 2), ("activation", "tanh"), ("dropout", 0.1), ("norm", "batch"))
    net = build(Recipe(net="mlp", net_options=options), (2, 3), 4)
    hidden = ["Linear", "BatchNorm1d", "Tanh", "Dropout"]
    assert layers(net) == ["Flatten", *hidden, *hidden, "Linear"]
    assert [tuple(m.weight.shape) for m in net if isinstance(m, nn.Linear)] == [(7, 6), (7, 7), (4, 7)]


def test_a_cnn_without_batch_norm_has_biases_instead():
    with_norm, without = (
        build(Recipe(net="cnn", net_options=(("norm", norm), ("channels", 2))), (1, 8, 8), 3)
        for norm in ("batch", "none")
    )
    assert layers(with_norm).count("BatchNorm2d") == 2
    assert layers(without).count("BatchNorm2d") == 0
    assert with_norm[0].bias is None
    assert without[0].bias is not None


@pytest.mark.parametrize("net", ["mlp", "cnn", "deep_cnn", "resnet18", "wide_resnet"])
def test_group_norm_takes_the_place_of_every_batch_norm(net):
    small = {"mlp": {"width": 12}, "wide_resnet": {"depth": 10}}.get(net, {"channels": 4})
    batch, group = (
        build(Recipe(net=net, net_options=tuple({**small, "norm": norm}.items())), (2, 8, 8), 3)
        for norm in ("batch", "group")
    )
    n_norms = sum(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in batch.modules())
    assert n_norms > 0
    assert [isinstance(m, nn.GroupNorm) for m in group.modules()].count(True) == n_norms
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in group.modules())
    names = [name for name, _ in batch.named_parameters()]
    assert [name for name, _ in group.named_parameters()] == names
    rows = torch.randn(3, 2, 8, 8)
    torch.testing.assert_close(group(rows)[:1], group(rows[:1]), rtol=1e-4, atol=1e-5)


def test_an_unknown_norm_is_refused():
    for net, norm in (("mlp", "layer"), ("cnn", "layer"), ("resnet18", "none")):
        with pytest.raises(InputError, match=f"{net}: norm='{norm}': choose"):
            build(Recipe(net=net, net_options=(("norm", norm),)), (1, 8, 8), 3)


class TestDigest:
    def digest(self, net, shape=(5,), n_classes=3, lr=0.001, **options):
        recipe = Recipe(net=net, net_options=tuple(options.items()), lr=lr)
        return digest_of_net(build(recipe, shape, n_classes))

    def test_it_follows_shape_classes_and_options(self):
        digests = [
            self.digest("mlp"),
            self.digest("linear"),
            self.digest("mlp", shape=(6,)),
            self.digest("mlp", n_classes=4),
            self.digest("mlp", width=5),
            self.digest("mlp", depth=2),
            self.digest("mlp", activation="tanh"),
            self.digest("mlp", dropout=0.1),
            self.digest("mlp", dropout=0.2),
        ]
        assert len(set(digests)) == len(digests)

    def test_it_does_not_follow_the_random_weights_or_the_training(self):
        torch.manual_seed(0)
        first = self.digest("mlp")
        torch.manual_seed(1)
        assert self.digest("mlp", lr=0.5) == first

    def test_another_torch_that_words_its_layers_otherwise_changes_nothing(self, monkeypatch):
        """A bank trained on one machine is judged on another."""
        first = self.digest("wide_resnet", shape=(3, 8, 8))
        monkeypatch.setattr(torch.nn.BatchNorm2d, "extra_repr", lambda _: "said otherwise")
        assert self.digest("wide_resnet", shape=(3, 8, 8)) == first


class TestCode:
    def identity(self, net, **options):
        recipe = Recipe(net=net, net_options=tuple(options.items()))
        return code_identity(**code_of_net(recipe, build(recipe, (5,), 3)))

    def test_a_shipped_net_has_none(self):
        assert code_of_net(Recipe(), build(Recipe(), (5,), 3)) == {}

    def test_it_follows_the_code_of_a_user_s_factory_but_not_its_comments(self, own_module):
        name = own_module(SMALL)
        before = self.identity(f"{name}:small")
        own_module(SMALL.replace("def small(", "# the same net\n    def small("))
        assert self.identity(f"{name}:small") == before
        own_module(SMALL.replace("def small(", "EXTRA = 1\n    def small("))
        assert self.identity(f"{name}:small") != before

    def test_it_follows_what_a_layer_holds(self, own_module):
        """The net's structure, its shapes and every source stay as they were."""
        name = own_module(
            """
            from torch import nn

            class Scaled(nn.Module):
                def __init__(self, scale):
                    super().__init__()
                    self._scale = lambda x: x * scale

                def forward(self, x):
                    return self._scale(x)

            def net(input_shape, n_classes, options):
                return nn.Sequential(nn.Linear(input_shape[0], n_classes), Scaled(len(options)))
            """
        )
        assert self.identity(f"{name}:net", options="ab") == self.identity(f"{name}:net", options="cd")
        assert self.identity(f"{name}:net", options="ab") != self.identity(f"{name}:net", options="abc")

    def test_it_follows_the_code_of_a_layer_from_another_module(self, own_module):
        """The net's structure and shapes stay as they were: only the source can tell."""
        layer = """
            from torch import nn

            class Layer(nn.Module):
                def forward(self, x):
                    return x * FACTOR
        """
        other = own_module(layer.replace("FACTOR", "2"), "my_nets_for_a_test_layers")
        name = own_module(
            f"""
            from torch import nn
            from {other} import Layer

            def net(input_shape, n_classes):
                return nn.Sequential(nn.Linear(input_shape[0], n_classes), Layer())
            """
        )
        before = self.identity(f"{name}:net")
        own_module(layer.replace("FACTOR", "30"), "my_nets_for_a_test_layers")
        sys.modules.pop(name)
        assert self.identity(f"{name}:net") != before
