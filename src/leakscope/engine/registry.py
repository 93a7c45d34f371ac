"""Engines by name, for config files and the command line."""

from __future__ import annotations

from leakscope.engine.local import Engine, LocalEngine
from leakscope.errors import InputError

ENGINES = ("local", "ray")


def engine_named(name: str, address: str | None = None) -> Engine:
    """The engine of this name.

    Args:
        name: "local" or "ray".
        address: of a Ray cluster: "auto" (the default) or "HOST:PORT".
    """
    if name == "ray":
        from leakscope.engine.ray_engine import RayEngine

        return RayEngine(address or "auto")
    if name != "local":
        raise InputError(f"engine={name!r} is unknown; choose one of {', '.join(ENGINES)}")
    if address is not None:
        raise InputError(f"address={address!r} would do nothing: the engine is 'local'; use engine 'ray'")
    return LocalEngine()
