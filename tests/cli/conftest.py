"""These tests look at what a command says, so their audits and studies are quick ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import page as scaling
from tests.quick_audits import few_permutations, quick_audits


@pytest.fixture(autouse=True, scope="package")
def quick_studies() -> Iterator[None]:
    with quick_audits(), few_permutations(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(scaling, "write_report", lambda *_: None)
        patched.setattr(scaling_judge, "_N_DRAWS", 50)
        yield
