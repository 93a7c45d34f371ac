"""What is loaded when: heavy libraries only where they are used, and torch not at all to judge outputs."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.test_imports import SOURCES

HEAVY = (
    "torch", "sklearn", "scipy.stats", "scipy.optimize", "scipy.spatial", "matplotlib", "polars", "plotly",
    "lightgbm", "joblib", "dp_accounting", "safetensors",
)  # fmt: skip
LIGHT = (
    "leakscope", "leakscope.cli.main", "leakscope.audits.run", "leakscope.audits.predictions",
    "leakscope.audits.finished", "leakscope.audits.merged", "leakscope.audits.report.page",
    "leakscope.evaluate.judge", "leakscope.runs.run", "leakscope.compare.compare",
)  # fmt: skip


def loaded_with(path: Path) -> Iterator[str]:
    """Names of what is imported when a file is: not in functions, not for type checkers alone."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) or (
            isinstance(node, ast.If) and "TYPE_CH" in ast.dump(node.test)
        ):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        waiting += ast.iter_child_nodes(node)


def with_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_loads_no_heavy_library(module: str) -> None:
    waiting, loaded_by = [module], {module: ""}
    while waiting:
        name = waiting.pop()
        for imported in loaded_with(SOURCES[name]) if name in SOURCES else ():
            for part in with_packages(imported):
                if part not in loaded_by:
                    loaded_by[part] = name
                    waiting.append(part)
    assert {name: loaded_by[name] for name in HEAVY if name in loaded_by} == {}


def without_torch(script: str, folder: Path, *, rc: int = 0) -> str:
    """Runs a script in a process where torch cannot be imported; returns what it prints, errors included."""
    blocked = """
        import sys

        class NotInstalled:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("torch", "safetensors"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, NotInstalled())
        from leakscope.cli.main import main

        def leakscope(*arguments):
            sys.argv = ["leakscope", *arguments]
            try:
                main()
            except SystemExit as end:
                assert not end.code, (arguments, end.code)
    """
    code = textwrap.dedent(blocked) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == rc, done.stdout
    return done.stdout


def write_predictions(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("before", "after"):
        labels, is_member = np.arange(240) % 3, rng.random(240) < 0.5
        logits = rng.normal(size=(5, 240, 3)) + 2 * (np.arange(3) == labels[:, None])
        np.savez(
            folder / f"{name}.npz",
            logits=logits[0],
            labels=labels,
            is_member=is_member,
            reference_logits=logits[1:],
            reference_members=rng.random((4, 240)) < 0.5,
        )


@pytest.mark.slow
def test_outputs_are_judged_where_torch_is_not_installed(tmp_path: Path) -> None:
    write_predictions(tmp_path)
    said = without_torch(
        """
        for name in ("before", "after"):
            leakscope("audit", "--predictions", f"{name}.npz", "--quiet")
        leakscope("judge", "runs/before", "--attacks", "rmia", "--quiet")
        leakscope("verify", "runs/before")
        leakscope("report", "runs/before")
        leakscope("compare", "runs/before", "runs/after")

        import leakscope
        run = leakscope.open_run("runs/before")
        print(sorted(run.results.attacks))
        assert "torch" not in sys.modules
        """,
        tmp_path,
    )
    assert "'rmia'" in said


@pytest.mark.slow
def test_training_without_torch_says_what_to_install(tmp_path: Path) -> None:
    said = without_torch("sys.argv = ['leakscope', 'demo']; main()", tmp_path, rc=2)
    assert said.strip().splitlines()[-1].startswith("leakscope: training needs torch")
    assert "leakscope[train]" in said
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()
