"""Sums of clipped gradients: by ghost norms, row by row, and by Opacus, on the same batch."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from leakscope.train.clipping import ClippedSum, Weights
from leakscope.train.losses import PLAIN

ROWS, CLASSES = 9, 3


class Attention(nn.Module):
    """Tokens through an embedding, layer norm and linear layers over positions."""

    def __init__(self, padding=None):
        super().__init__()
        self.embedding = nn.Embedding(11, 8, padding_idx=padding)
        self.norm = nn.LayerNorm(8)
        self.inner, self.outer = nn.Linear(8, 20), nn.Linear(20, CLASSES)

    def forward(self, x):
        tokens = self.norm(self.embedding(x.long()))
        return self.outer(torch.tanh(self.inner(tokens)).mean(1))


class Convolutions(nn.Module):
    """Strides, dilation, paddings, a bias; activations in place, which Opacus does not take."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace
        self.first = nn.Conv2d(2, 6, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(3, 6)
        self.second = nn.Conv2d(6, 8, (3, 2), dilation=(1, 2), bias=False)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x):
        inner = F.relu(self.norm(self.first(x)), self.inplace)
        return self.last(F.relu(self.second(inner), self.inplace).mean((2, 3)))


def frozen_start():
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, CLASSES))
    net[0].weight.requires_grad_(False)
    return net


def rows(*shape):
    return lambda: torch.randn(ROWS, *shape)


def tokens():
    return torch.randint(0, 11, (ROWS, 6)).float()


NETS = {
    "dense": (lambda: nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, CLASSES)), rows(5)),
    "convolution": (Convolutions, rows(2, 12, 12)),
    "in place": (lambda: Convolutions(inplace=True), rows(2, 12, 12)),
    "many positions": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(200, CLASSES)),
        rows(1, 12, 12),
    ),
    "few positions": (
        lambda: nn.Sequential(nn.Conv2d(4, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, CLASSES)),
        rows(4, 4, 4),
    ),
    "group norm": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Linear(8, CLASSES)),
        rows(5),
    ),
    "embedding": (Attention, tokens),
    "embedding with padding": (lambda: Attention(padding=3), tokens),
    "half frozen": (frozen_start, rows(5)),
}
LAYERS_OF_OPACUS = ("dense", "convolution", "group norm", "embedding")


def problem(name):
    torch.manual_seed(0)
    make, draw = NETS[name]
    return make(), draw(), torch.randint(0, CLASSES, (ROWS,))


def weights_of(net):
    named = {name: p.detach() for name, p in net.named_parameters()}
    names = [name for name, p in net.named_parameters() if p.requires_grad]
    return names, Weights([named.pop(name) for name in names], named, dict(net.named_buffers()))


def clipped_by(net, x, y, clip, is_ghost, weight=None):
    names, weights = weights_of(net)
    way = ClippedSum(names, PLAIN)
    if is_ghost:
        way.prepare(net, weights, x, y)
        assert way.is_ghost
    return way(net, weights, x, y, torch.ones(len(x)) if weight is None else weight, clip)


def by_definition(net, x, y, clip):
    """One backward pass per record; the average over views is clipped, by a norm of its own where given."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    summed = [torch.zeros_like(p) for p in parameters]
    clips = clip if isinstance(clip, torch.Tensor) else torch.full((len(x),), float(clip))
    for row, label, own_clip in zip(x, y, clips, strict=True):
        loss = F.cross_entropy(net(row), label.expand(len(row)))
        gradients = torch.autograd.grad(loss, parameters)
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        for total, g in zip(summed, gradients, strict=True):
            total += g * min(1.0, float(own_clip / norm))
    return summed


def assert_close(found, wanted, tolerance=1e-5):
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(f, w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("clip", [0.05, 0.7, 1e6])
@pytest.mark.parametrize("is_ghost", [True, False])
def test_both_ways_follow_the_definition(name, clip, is_ghost):
    net, x, y = problem(name)
    assert_close(clipped_by(net, x[:, None], y, clip, is_ghost), by_definition(net, x[:, None], y, clip))


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("is_ghost", [True, False])
def test_each_row_may_have_a_clipping_norm_of_its_own(name, is_ghost, monkeypatch):
    """Some rows are clipped more, some not at all; single gradients are computed a few rows at a time."""
    monkeypatch.setattr("leakscope.train.clipping._NUMBERS_AT_ONCE", 1000)
    net, x, y = problem(name)
    clip = torch.tensor([0.05, 0.7, 1e6] * (ROWS // 3))
    found = clipped_by(net, x[:, None], y, clip, is_ghost)
    assert_close(found, by_definition(net, x[:, None], y, clip))
    alike = clipped_by(net, x[:, None], y, 0.7, is_ghost)
    assert max(float((a - b).abs().max()) for a, b in zip(found, alike, strict=True)) > 1e-3


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("is_ghost", [True, False])
def test_views_are_averaged_before_clipping(name, is_ghost):
    net, x, y = problem(name)
    views = torch.stack([x, x.flip(-1), x.roll(1, -1)], dim=1)
    assert_close(clipped_by(net, views, y, 0.3, is_ghost), by_definition(net, views, y, 0.3))


@pytest.mark.parametrize("name", LAYERS_OF_OPACUS)
def test_the_sum_is_that_of_opacus(name):
    pytest.importorskip("opacus", reason="opacus is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.grad_sample import GradSampleModule

        net, x, y = problem(name)
        theirs = GradSampleModule(net, loss_reduction="sum")
        F.cross_entropy(theirs(x), y, reduction="sum").backward()
    single = [p.grad_sample for p in theirs.parameters()]
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in single]).norm(dim=0)
    clip = float(norms.median())  # some are clipped, some are not
    factor = (clip / (norms + 1e-6)).clamp(max=1)
    found = clipped_by(problem(name)[0], x[:, None], y, clip, True)
    assert_close(found, [torch.tensordot(factor, g, 1) for g in single])


class Tied(nn.Module):
    """The output layer's weights are the embedding's: gradients come by two ways."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, 4)
        self.inner = nn.Linear(5, 4)

    def forward(self, x):
        inner = torch.tanh(self.inner(x)) + self.embedding(x[:, 0].long() * 0)
        return F.linear(inner, self.embedding.weight)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


class Folded(nn.Module):
    """Positions as rows of a layer: its rows are not the batch's."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 4), nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.outer(self.inner(x.reshape(-1, 5)).reshape(len(x), -1, 4).mean(1))


@pytest.mark.parametrize("make", [Tied, Twice, Folded])
def test_layers_that_mislead_ghost_norms_are_noticed(make):
    torch.manual_seed(0)
    net, y = make(), torch.randint(0, CLASSES, (ROWS,))
    x = torch.randn(ROWS, 2, 5) if make is Folded else torch.randn(ROWS, 5)
    names, weights = weights_of(net)
    way = ClippedSum(names, PLAIN)
    way.prepare(net, weights, x[:2, None], y[:2])
    assert not way.is_ghost
    found = way(net, weights, x[:, None], y, torch.ones(ROWS), 0.3)
    assert_close(found, by_definition(net, x[:, None], y, 0.3))


def test_rows_in_parts_give_the_same_sum(monkeypatch):
    from leakscope.train import clipping, ghost

    for name, is_ghost in (("dense", False), ("convolution", True)):
        net, x, y = problem(name)
        whole = clipped_by(net, x[:, None], y, 0.3, is_ghost)
        monkeypatch.setattr(clipping, "_NUMBERS_AT_ONCE", 150)
        monkeypatch.setattr(ghost, "_NUMBERS_AT_ONCE", 2000)
        assert_close(clipped_by(net, x[:, None], y, 0.3, is_ghost), whole, 1e-6)


def test_a_row_without_weight_adds_nothing():
    net, x, y = problem("convolution")
    weight = torch.tensor(np.arange(ROWS) < 4).float()
    found = clipped_by(net, x[:, None], y, 0.3, True, weight)
    assert_close(found, by_definition(net, x[:4, None], y[:4], 0.3))
