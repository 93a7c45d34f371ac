"""Where the published datasets lie for tests on real data, and small stand-ins for the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leakscope.data.registry import dataset

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def published_root() -> Path:
    """The data folder: $LEAKSCOPE_DATA, or shared/data beside the repository."""
    chosen = os.environ.get("LEAKSCOPE_DATA")
    root = Path(chosen) if chosen else REPO.parent / "shared" / "data"
    if not root.is_dir():
        pytest.skip(f"no published data: {root} is not there (set LEAKSCOPE_DATA)")
    return root


@pytest.fixture
def published_folder(published_root: Path, request: pytest.FixtureRequest) -> Path:
    """The folder of the dataset given by indirect parametrization, where it is complete."""
    return folder_or_skip(published_root, request.param)


def folder_or_skip(root: Path, name: str) -> Path:
    entry = dataset(name)
    if not entry.is_present(root):
        pytest.skip(f"{name} is not in {root}")
    return root / entry.folder
