"""Wheel and sdist, built once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Built(NamedTuple):
    """What a release uploads."""

    wheel: Path
    sdist: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist of this checkout, and the wheel that is built from the sdist."""
    for module in ("build", "hatchling"):
        pytest.importorskip(module, reason=f"{module} is not installed (pip install 'leakscope[dev]')")
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT], check=True)
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))
