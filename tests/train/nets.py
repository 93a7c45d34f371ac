"""A user's own networks, named in recipes as "tests.train.nets:..."."""

from math import prod

from torch import nn
from torch.nn import functional as F  # noqa: N812


def dropped_channels(input_shape, n_classes):
    return nn.Sequential(
        nn.Conv2d(input_shape[0], 6, 3), nn.Dropout2d(0.4), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.3), nn.Linear(24, n_classes),
    )  # fmt: skip


def half_frozen(input_shape, n_classes):
    net = nn.Sequential(nn.Linear(*input_shape, 6), nn.ReLU(), nn.Linear(6, n_classes))
    net[0].weight.requires_grad_(False)
    return net


def tied(input_shape, n_classes):
    layer = nn.Linear(*input_shape, *input_shape)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(*input_shape, n_classes))


class Undecided(nn.Module):
    """Looks at its data to decide what to compute, which no stack can do for several models at once."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.layer = nn.Linear(n_inputs, n_classes)

    def forward(self, x):
        outputs = self.layer(x.flatten(1))
        return outputs if outputs.sum() > 0 else 0.5 * outputs


def undecided(input_shape, n_classes):
    return Undecided(prod(input_shape), n_classes)


class DropsByItself(nn.Module):
    """Draws from torch's global generator."""

    def __init__(self, n_inputs, n_classes):
        super().__init__()
        self.layer = nn.Linear(n_inputs, n_classes)

    def forward(self, x):
        return self.layer(F.dropout(x, 0.5, self.training))


def drops_by_itself(input_shape, n_classes):
    return DropsByItself(prod(input_shape), n_classes)


def gelu(input_shape, n_classes, width=6):
    return nn.Sequential(nn.Linear(prod(input_shape), width), nn.GELU(), nn.Linear(width, n_classes))
