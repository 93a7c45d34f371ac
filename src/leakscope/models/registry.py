"""From a name and options to a network."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable
from difflib import get_close_matches

from torch import nn

from leakscope.errors import InputError
from leakscope.recipe import Recipe

NETS = ("cnn", "deep_cnn", "linear", "mlp", "resnet18", "wide_resnet")

Factory = Callable[..., nn.Module]


def factory(name: str) -> Factory:
    """The factory of a shipped net, or the one at "package.module:function"."""
    if ":" in name:
        return _imported(name)
    if name not in NETS:
        near = get_close_matches(name, NETS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"net={name!r} is unknown; choose one of {', '.join(NETS)}, or 'package.module:factory'.{hint}"
        )
    found: Factory = getattr(importlib.import_module(f"leakscope.models.{name}"), name)
    return found


def build(recipe: Recipe, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """A freshly initialised network of the recipe, from torch's current random state."""
    make = factory(recipe.net)
    try:
        net = make(input_shape, n_classes, **dict(recipe.net_options))
    except (TypeError, ValueError) as error:
        raise InputError(f"net={recipe.net!r} with options {dict(recipe.net_options)}: {error}") from error
    if not isinstance(net, nn.Module):
        raise InputError(f"net={recipe.net!r} returned {type(net).__name__}, expected a torch.nn.Module")
    return net


def net_digest(recipe: Recipe, input_shape: tuple[int, ...], n_classes: int) -> str:
    """Sha256 of what the network is: its structure, its shapes and, for a user's own, its source.

    Guards against the worst mistake of a cache: a changed network that silently reuses old models.
    """
    net = build(recipe, input_shape, n_classes)
    shapes = [f"{name}{tuple(t.shape)}" for name, t in net.state_dict().items()]
    parts = [*(_described(name, module) for name, module in net.named_modules()), *shapes]
    if ":" in recipe.net:
        modules = {inspect.getmodule(o) for o in (factory(recipe.net), *map(type, net.modules()))}
        own = {m for m in modules if m is not None and not m.__name__.startswith("torch.")}
        parts += sorted(inspect.getsource(m) for m in own)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _described(name: str, module: nn.Module) -> str:
    """One layer: its place, kind and settings. Not `repr`, whose wording changes with torch's version."""
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


def _imported(name: str) -> Factory:
    module_name, _, attribute = name.partition(":")
    try:
        found: Factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"net={name!r} cannot be imported ({error}); is the package on the Python path, "
            "and is the name 'package.module:function'?"
        ) from error
    return found
