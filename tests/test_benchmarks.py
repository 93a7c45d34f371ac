"""Benchmarks can be started: what they import exists, and every one explains itself."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.rglob("*.py"))


def _imported(tree: ast.Module) -> dict[str, object]:
    """Our own modules and what is imported from them, also inside functions, by their names in a script."""
    imported: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("leakscope"):
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
                imported[name.asname or name.name] = getattr(module, name.name)
    return imported


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_benchmark_takes_from_leakscope_exists(script: Path) -> None:
    tree = ast.parse(script.read_text())
    modules = {name: one for name, one in _imported(tree).items() if isinstance(one, ModuleType)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert hasattr(modules[node.value.id], node.attr), f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_benchmark_says_what_it_measures(script: Path) -> None:
    assert ast.get_docstring(ast.parse(script.read_text())), f"{script.name} has no docstring"
