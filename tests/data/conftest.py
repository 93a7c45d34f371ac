"""The folders of published datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.data.registry import dataset
from tests.published_data import data_root, root_with


@pytest.fixture
def published_folder(request: pytest.FixtureRequest) -> Path:
    """The folder of the dataset given by indirect parametrization, where it is complete."""
    root_with(request.param)
    return data_root() / dataset(request.param).folder
