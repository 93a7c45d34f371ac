"""Benchmarks can be started: what they import exists, and every one explains itself."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

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


def _coverage(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, under a name that is not that of the package for the coverage of tests."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location("coverage_of_intervals", BENCHMARKS / "coverage.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _figures(coverage: float, names: Sequence[str] = ("AUC, lira", "bits")) -> dict[str, dict[str, float]]:
    return {name: {"coverage": coverage, "below": 0.0, "above": 0.0, "mean": 0.5} for name in names}


def test_coverage_measures_again_only_the_figures_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    coverage = _coverage(monkeypatch)
    cell = coverage.Cell("mlp", 16, "balanced", "same")
    key = coverage.key_of(cell)
    results: dict[str, Any] = {
        key: {
            "populations": 200,
            "before": {"bits": "they were Gaussian"},
            "figures": _figures(0.95),
            "again": {"populations": 300, "figures": _figures(0.95)},
        }
    }
    due = list(coverage.tasks([cell], 200, None, results))
    assert due == [
        coverage.Task(cell, range(200, 500), ("bits",), "again"),
        coverage.Task(cell, range(200), ("bits",)),
    ]
    coverage._keep(due[0], _figures(0.99), results)
    assert "before" in results[key], "an interruption must not lose that the cell itself is stale"
    coverage._keep(due[1], _figures(0.97), results)
    new = results[key]
    assert new["figures"]["bits"]["coverage"] == 0.97 and new["again"]["figures"]["bits"]["coverage"] == 0.99
    assert new["figures"]["AUC, lira"]["coverage"] == new["again"]["figures"]["AUC, lira"]["coverage"] == 0.95
    assert not list(coverage.tasks([cell], 200, None, results))


def test_coverage_measures_what_misses_with_new_populations(monkeypatch: pytest.MonkeyPatch) -> None:
    coverage = _coverage(monkeypatch)
    missing, holding, absent = (
        coverage.Cell("mlp", 16, design, "same") for design in ("balanced", "bernoulli", "pairs")
    )
    results: dict[str, Any] = {
        coverage.key_of(missing): {"populations": 200, "figures": _figures(0.92)},
        coverage.key_of(holding): {"populations": 200, "figures": _figures(0.93)},
    }
    chosen = [missing, holding, absent]
    assert list(coverage.tasks(chosen, 200, None, results)) == [coverage.Task(absent, range(200))]
    assert list(coverage.tasks(chosen, 200, 300, results)) == [
        coverage.Task(missing, range(200, 500), part="again")
    ]
