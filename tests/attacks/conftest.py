"""These tests look neither at pictures nor at the check for shift."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.quick_audits import few_permutations, quick_audits


@pytest.fixture(autouse=True, scope="package")
def only_quick_audits() -> Iterator[None]:
    with quick_audits(), few_permutations():
        yield
