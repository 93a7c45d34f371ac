"""What the tests of merging share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bank.merge_parts import bank_of


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Seeds 0, 1 and 2 with 7 (blocks of 3, 3, 1), 4 (3, 1) and 3 models."""
    return tuple(bank_of(tmp_path / f"part{seed}", seed, n) for seed, n in ((0, 7), (1, 4), (2, 3)))  # type: ignore[return-value]
