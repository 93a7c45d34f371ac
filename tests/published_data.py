"""Where the published datasets are, for tests on real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leakscope.data.registry import dataset

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def data_root() -> Path:
    """$LEAKSCOPE_DATA, or shared/data beside the repository; a test is skipped where there is neither."""
    root = Path(os.environ.get("LEAKSCOPE_DATA") or _BESIDE)
    if not root.is_dir():
        pytest.skip(f"no published data: {root} is not there (set LEAKSCOPE_DATA)")
    return root


def root_with(name: str) -> Path | None:
    """The data folder if it holds the dataset, else the test is skipped; None where it needs no files."""
    entry = dataset(name)
    if not entry.files:
        return None
    root = data_root()
    if not entry.is_present(root):
        pytest.skip(f"{name} is not in {root}")
    return root
