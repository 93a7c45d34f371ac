"""Reports again from the folder: a page that is to be redacted never exists otherwise, not for a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.report.page import PAGE
from leakscope.runs.rebuild import rebuild_report
from leakscope.single_model import page as ensemble_page
from leakscope.single_model import report as ensemble_report
from leakscope.studies.dynamics import page as dynamics_page
from leakscope.studies.dynamics import report as dynamics_report
from tests.report.html.made_up import made_up_study, setting
from tests.report.html.small_studies import small_ensemble


def small_dynamics(folder: Path) -> Any:
    return made_up_study(folder, (setting(universe=60, epochs=4),))


_STUDIES: dict[str, tuple[Callable[[Path], Any], Any]] = {
    "dynamics": (small_dynamics, dynamics_page),
    "ensemble": (small_ensemble, ensemble_page),
}


@pytest.mark.parametrize("kind", ["dynamics", pytest.param("ensemble", marks=pytest.mark.slow)])
def test_a_redacted_rebuild_writes_its_page_once_and_redacted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, page_module = _STUDIES[kind]
    run(tmp_path)
    written: list[str] = []

    def noted(path: Path, content: bytes) -> None:
        written.append(content.decode())
        write_bytes(path, content)

    monkeypatch.setattr(page_module, "write_bytes", noted)
    monkeypatch.setattr(dynamics_report, "draw_run", lambda *_: [])  # pictures cost seconds
    monkeypatch.setattr(ensemble_report, "draw_roc", lambda *_: None)
    assert rebuild_report(tmp_path, Disclosure(redacted=True)) == tmp_path / PAGE
    assert ["Redacted:" in page for page in written] == [True]
    rebuild_report(tmp_path)
    assert ["Redacted:" in page for page in written] == [True, False]
