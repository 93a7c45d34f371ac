"""These tests look neither at pictures nor at the check for shift."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.code_identity.project import Code
from tests.quick_audits import few_permutations, quick_audits


@pytest.fixture(autouse=True, scope="package")
def only_quick_audits() -> Iterator[None]:
    with quick_audits(), few_permutations():
        yield


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Code:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Code(tmp_path)
