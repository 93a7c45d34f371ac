"""Reports again from the folder: a page that is to be redacted never exists otherwise, not for a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.report import page, png
from leakscope.runs.kinds import rebuild_report
from tests.report.html.made_up import made_up_study, setting
from tests.report.html.small_studies import small_ensemble


def small_dynamics(folder: Path) -> Any:
    return made_up_study(folder, (setting(universe=60, epochs=4),))


_STUDIES: dict[str, Callable[[Path], Any]] = {"dynamics": small_dynamics, "ensemble": small_ensemble}


@pytest.mark.parametrize("kind", ["dynamics", pytest.param("ensemble", marks=pytest.mark.slow)])
def test_a_redacted_rebuild_writes_its_page_once_and_redacted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _STUDIES[kind](tmp_path)
    written: list[str] = []

    def noted(path: Path, content: bytes) -> None:
        if path.name == page.PAGE:
            written.append(content.decode())
        write_bytes(path, content)

    monkeypatch.setattr(page, "write_bytes", noted)
    monkeypatch.setattr(png, "draw_png", lambda charts, path: None)  # pictures cost seconds
    assert rebuild_report(tmp_path, Disclosure(redacted=True)) == tmp_path / page.PAGE
    assert ["Redacted:" in text for text in written] == [True]
    rebuild_report(tmp_path)
    assert ["Redacted:" in text for text in written] == [True, False]
