"""Values that a module computes on import, and that caches and installed libraries hold for it."""

from __future__ import annotations

import pytest

from leakscope.code_identity.walk import code_identity
from tests.code_identity.project import Code

READ = """
import os
import dataclasses, functools
import numpy as np
from rich.table import Column

def read():
    return int(os.environ["USER_DEPTH"])

class Config:
    @functools.cached_property
    def depth(self):
        return read()

@functools.lru_cache
def settings(name="depth"):
    return {name: read()}

CONFIG = Config()
COLUMN = Column()
"""
HELD = {
    "a cached property": ("CONFIG.depth", "CONFIG.depth"),
    "a cached property that a function reads": ("def f():\n    return CONFIG.depth\nf()", "CONFIG.depth"),
    "a cache": ("IS_DEEP = settings()['depth'] > 5", "settings()"),
    "a cache by a name": ("settings('depth')", "settings('depth')"),
    "a cache by several names": ("settings('depth'), settings('width')", "settings('width')"),
    "a cache without a limit": ("f = functools.cache(settings.__wrapped__); g = settings()", "settings()"),
    "a library": ("np.user_depth = read()", "np.user_depth"),
    "a library by setattr": ("setattr(np, 'user_depth', read())", "np.user_depth"),
    "a library, set by a function": ("def f():\n    np.user_depth = read()\nf()", "np.user_depth"),
    "an object of an installed class": ("COLUMN.user_depth = read()", "COLUMN.user_depth"),
}


def write(code: Code, on_import: str, result: str) -> None:
    code.write(user_main=f"{READ}\n{on_import}\ndef train():\n    return {result}\n")


@pytest.mark.parametrize("where", HELD)
def test_what_was_read_on_import_counts(where: str, code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    write(code, *HELD[where])
    found = []
    for depth in ("3", "3", "12"):
        monkeypatch.setenv("USER_DEPTH", depth)
        found.append(code.identity())
    one, same, other = found
    assert one.unknown == ()
    assert one == same
    assert one.modules == other.modules and one.values != other.values


LATER = {
    "a cached property": ("", "CONFIG.depth"),
    "a cached property of another object": ("Config().depth", "CONFIG.depth"),
    "a cache": ("", "settings()"),
    "a cache that is read in a script": ("if __name__ == '__main__':\n    settings()", "settings()"),
    "a cache by another name": ("settings('width')", "settings('depth')"),
    "a call of another function of that name": ("class A:\n    def settings(self): ...\nA().settings()",
                                                "settings()"),
    "a library": ("def f():\n    np.user_depth = read()", "f()"),
}  # fmt: skip


@pytest.mark.parametrize("where", LATER)
def test_what_a_training_reads_does_not_count(
    where: str, code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit may run twice in a process, and a function may be tried by hand before it."""
    write(code, *LATER[where])
    monkeypatch.setenv("USER_DEPTH", "3")
    train = code.load().train
    before = code_identity(train=train)
    train()
    assert code_identity(train=train) == before
    assert code.identity() == before
