"""Rooms stand in one order, and a room imports only from rooms before it.

Every import counts, also those inside functions and under TYPE_CHECKING: where an arrow points is a matter
of design, not of when it is followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "leakscope"

ORDER = (
    "errors", "array_types", "user_code", "disk", "frames", "types", "code_identity", "randomness", "design",
    "options", "privacy", "recipe", "adapter_recipe", "disclosure",
    "signals", "data", "models", "train", "bank", "engine",
    "stats", "attacks", "leakage", "hardness", "report", "dynamics",
    "defences", "dp", "evaluate", "audits", "testing", "single_model", "compare", "advice", "studies", "runs",
    "doctor", "integrations", "cli",
)  # fmt: skip
"""Rooms and root modules, from leaf to edge; ARCHITECTURE.md describes them in this order."""

WITHOUT_TORCH = ("stats", "leakage", "attacks", "dynamics", "hardness", "bank", "data", "evaluate")
"""Rooms that work where torch is not installed: no import reached from them needs it."""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Full names of what a file imports; a module's name where one is meant."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in SOURCES else str(node.module)


def room_of(module: str) -> str | None:
    """The room a module of ours is in; None for the package itself and for other packages."""
    package, _, inner = module.partition(".")
    return inner.split(".")[0] if package == "leakscope" and inner else None


def test_every_room_has_a_place_in_the_order() -> None:
    assert {room for room in map(room_of, SOURCES) if room} == set(ORDER)


def test_no_room_imports_from_one_after_it() -> None:
    place = {room: index for index, room in enumerate(ORDER)}
    wrong = [
        f"{name} imports {imported}"
        for name, path in SOURCES.items()
        for imported in imports(path)
        if (here := room_of(name)) and (there := room_of(imported)) and place[there] > place[here]
    ]
    assert wrong == []


def test_the_root_holds_few_modules() -> None:
    assert len([path for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]) <= 10


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_nothing_reached_from_a_room_without_torch_needs_it(room: str) -> None:
    waiting = [name for name in SOURCES if room_of(name) == room]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name == "leakscope":
            continue
        seen.add(name)
        if name in SOURCES:
            waiting += imports(SOURCES[name])
    assert len(seen) > 3
    assert not [name for name in seen if name.split(".")[0] == "torch"]


def test_the_walk_sees_imports_wherever_they_are(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(
        "import a.b as c\nfrom leakscope.bank import bank, identity\nfrom leakscope.types import Records\n"
        "if TYPE_CHECKING:\n    from d import e\ndef f():\n    import g\n"
    )
    expected = {"a.b", "leakscope.bank.bank", "leakscope.bank.identity", "leakscope.types", "d", "g"}
    assert set(imports(source)) == expected
