"""The pages of the leakage, scaling and ensemble studies in a real browser: drawn whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.test_plane import until
from tests.report.html.small_studies import small_ensemble, small_leakage, small_scaling

if TYPE_CHECKING:
    from playwright.sync_api import Page

_STUDIES = {"leakage": (small_leakage, 6), "scaling": (small_scaling, 4), "ensemble": (small_ensemble, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", _STUDIES)
def test_every_chart_is_drawn_on_a_desk_and_on_a_phone(
    kind: str, tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    run: Callable[[Path], dict[str, Any]]
    run, n_charts = _STUDIES[kind]
    run(tmp_path / kind)
    for width, dark in ((1280, False), (390, True)):
        page = open_page(tmp_path / kind / "report.html", width=width, dark=dark)
        until(page, f"document.querySelectorAll('.chart .main-svg').length >= {n_charts}")
        assert page.locator(".chart").count() == n_charts
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator("h1").inner_text() and page.locator(".lead").inner_text()
