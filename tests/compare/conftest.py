"""Audits to compare: a leaky baseline, a defense, and the baseline again with other randomness."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.compare.compare import Comparison, compare
from tests.made_up_audits import made_up_audit, quick_single_records


@pytest.fixture(autouse=True, scope="package")
def quick() -> Iterator[None]:
    """No reports, which other tests check."""
    with quick_single_records(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakscope.compare.page.write_report", lambda *_: None)
        yield


@pytest.fixture(scope="package")
def audits(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folders: "leaky", "defended" (less accurate), "again" (same design), "elsewhere" (other design)."""
    folder = tmp_path_factory.mktemp("audits")
    made_up_audit(folder / "leaky", 2.0)
    made_up_audit(folder / "defended", 0.2, level=0.2, noise_seed=1)
    made_up_audit(folder / "again", 2.0, noise_seed=2)
    made_up_audit(folder / "elsewhere", 2.0, design_seed=5, noise_seed=3)
    return folder


@pytest.fixture(scope="package")
def helped(audits: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    out = tmp_path_factory.mktemp("compared") / "out"
    return compare([audits / "leaky", audits / "defended"], out)
