"""Data flows one way: who may import whom, read from the source of every file.

Imports inside functions and under TYPE_CHECKING count too: where an arrow points is a matter of
design, not of when it is followed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "leakscope"

_TRAINING = {
    "numpy", "torch",
    "leakscope.types", "leakscope.errors", "leakscope.recipe", "leakscope.randomness", "leakscope.signals",
    "leakscope.models", "leakscope.train", "leakscope.design", "leakscope.probabilities", "leakscope.pages",
    "leakscope.scratch",
}  # fmt: skip

ALLOWED = {  # room or file -> all it may import beside the standard library
    "types.py": {"numpy", "leakscope.errors", "leakscope.pages", "leakscope.texts"},
    "pages.py": {"numpy", "leakscope.errors", "leakscope.scratch"},
    "texts.py": {"numpy", "leakscope.scratch"},
    "scratch.py": {"numpy", "leakscope.errors"},
    "errors.py": set(),
    "randomness.py": {"numpy", "leakscope.errors"},
    "design.py": {
        "numpy",
        "leakscope.types",
        "leakscope.errors",
        "leakscope.randomness",
        "leakscope.scratch",
    },
    "signals.py": _TRAINING,
    "models": _TRAINING,
    "train": _TRAINING | {"joblib", "sklearn"},
    "notebook.py": {"numpy"},
    "stats": {"numpy", "scipy"}
    | {f"leakscope.{room}" for room in ("types", "errors", "notebook", "scratch", "texts", "stats")},
    "hardness": {"numpy", "scipy"}
    | {f"leakscope.{room}" for room in ("types", "errors", "stats", "hardness")},
    "monitor.py": {"numpy", "leakscope.types", "leakscope.errors"},
    "leakage": {"numpy", "scipy"}
    | {f"leakscope.{room}" for room in ("types", "errors", "randomness", "scratch", "stats", "leakage")},
}

_LATE = {"torch", "leakscope.train", "leakscope.engine", "leakscope.report", "leakscope.cli"}

FORBIDDEN = {  # room or file -> what it must not import
    "attacks": {"leakscope.bank", *_LATE},
    "dynamics": {"leakscope.bank", "leakscope.judge", *_LATE},
    "bank": _LATE,
    "data": {"leakscope.bank", *_LATE},
    "engine": {"leakscope.audit", "leakscope.studies", "leakscope.attacks", "leakscope.report"},
    "hygiene": {"leakscope.bank.bank", "leakscope.attacks", "leakscope.judge", *_LATE},
    "facts.py": _LATE,
    "previews.py": _LATE,
    "gate.py": _LATE,
    "attack_figures.py": {"leakscope.bank", "leakscope.judge", *_LATE},
    "judge.py": _LATE,
    "comparison": _LATE,
    "verdict.py": _LATE,
    "report": _LATE - {"leakscope.report"},
    "studies": {"torch"},
    "audit.py": {"torch"},
    "config.py": {"torch"},
    "verification.py": {"torch"},
    "rebuild.py": {"torch"},
}

WITHOUT_TORCH = ("stats", "leakage", "attacks", "dynamics", "hardness", "bank", "data", "hygiene", "judge.py")
"""What must work where torch is not installed: nothing they import, and nothing that imports, needs it."""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path) -> Iterator[str]:
    """Full names of what a file imports; a module's name where one is meant."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in SOURCES else str(node.module)


def is_within(name: str, rooms: set[str]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def files_of(room: str) -> list[Path]:
    where = PACKAGE / room
    return [where] if where.suffix else sorted(where.rglob("*.py"))


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    assert files_of(room)
    found = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in files_of(room)
        for name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names and not is_within(name, ALLOWED[room])
    ]
    assert found == []


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_never_imports_what_comes_after_it(room: str) -> None:
    assert files_of(room)
    found = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in files_of(room)
        for name in imports(path)
        if is_within(name, FORBIDDEN[room])
    ]
    assert found == []


def test_only_the_command_line_imports_the_command_line() -> None:
    found = [
        name
        for name, path in SOURCES.items()
        if not is_within(name, {"leakscope.cli"})
        and any(is_within(imported, {"leakscope.cli"}) for imported in imports(path))
    ]
    assert found == []


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_nothing_reached_from_a_room_without_torch_needs_it(room: str) -> None:
    waiting = [module_name(path) for path in files_of(room)]
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
        "import a.b as c\nfrom leakscope.bank import bank, storage\nfrom leakscope.types import Records\n"
        "if TYPE_CHECKING:\n    from d import e\ndef f():\n    import g\n"
    )
    expected = {"a.b", "leakscope.bank.bank", "leakscope.bank.storage", "leakscope.types", "d", "g"}
    assert set(imports(source)) == expected
