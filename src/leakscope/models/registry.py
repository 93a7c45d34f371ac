"""Networks by name: shipped ones, and factories of the user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from torch import nn

from leakscope.errors import InputError, did_you_mean
from leakscope.models import nets
from leakscope.recipe import Recipe
from leakscope.user_code import check_arguments, import_object, names_code

NETS = ("cnn", "deep_cnn", "linear", "mlp", "resnet18", "wide_resnet")

Factory = Callable[..., nn.Module]


def factory(name: str) -> Factory:
    """The factory of a shipped net, or the one at "package.module:function"."""
    if names_code(name):
        imported: Factory = import_object("net", name, "my_package.nets:my_net")
        return imported
    if name not in NETS:
        hint = did_you_mean(name, NETS, after=" ")
        raise InputError(
            f"net={name!r} is unknown; {hint}choose one of {', '.join(NETS)}, or 'package.module:factory'"
        )
    shipped: Factory = getattr(nets, name)
    return shipped


def build(recipe: Recipe, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """A freshly initialised network of the recipe, from torch's current random state."""
    make = factory(recipe.net)
    check_arguments(f"net={recipe.net!r}", make, dict(recipe.net_options))
    try:
        net = make(input_shape, n_classes, **dict(recipe.net_options))
    except (TypeError, ValueError) as error:
        raise InputError(f"net={recipe.net!r} with options {dict(recipe.net_options)}: {error}") from error
    if not isinstance(net, nn.Module):
        raise InputError(f"net={recipe.net!r} returned {type(net).__name__}, expected a torch.nn.Module")
    return net


def digest_of_net(net: nn.Module) -> str:
    """Sha256 of the network's structure and shapes."""
    shapes = [f"{name}{tuple(t.shape)}" for name, t in net.state_dict().items()]
    parts = [*(_described(name, module) for name, module in net.named_modules()), *shapes]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def code_of_net(recipe: Recipe, net: nn.Module) -> dict[str, object]:
    """Objects whose code decides what a user's own network computes; empty for a shipped network."""
    if not names_code(recipe.net):
        return {}
    internal = set(vars(nn.Module()))
    layers = {
        name or "net": (
            type(module),
            {key: value for key, value in vars(module).items() if key not in internal},
        )
        for name, module in net.named_modules()
    }
    return {"net": factory(recipe.net), "layers": layers}


def _described(name: str, module: nn.Module) -> str:
    """One layer: its path, type and settings. Not `repr`, whose wording changes between versions of torch."""
    settings = {
        key: value
        for key, value in sorted(vars(module).items())
        if not key.startswith("_") and key != "training" and _is_plain(value)
    }
    return f"{name}: {type(module).__name__} {settings}"


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
