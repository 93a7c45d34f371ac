"""The page of a comparison in a browser: no error, no request, both charts drawn, at every width."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leakscope.compare.compare import compare
from tests.made_up_audits import made_up_audit, quick_single_records

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "<a href='https:'>x<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    names = ("plain", "defended", EVIL)
    with quick_single_records():
        for at, (name, gap) in enumerate(zip(names, (2.0, 0.2, 2.5), strict=True)):
            towns = (EVIL, "<script>document.title='gone'</script>")
            made_up_audit(folder / name, gap, level=1 - 0.4 * (at == 1), noise_seed=at, towns=towns)
        compare([folder / name for name in names], folder / "out")
    return folder / "out" / "report.html"


def drawn(page: Page, chart: str) -> int:
    """Marks of a chart, once it has been scrolled to."""
    page.locator(f"#{chart}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#{chart} .point")
    return page.locator(f"#{chart} .point").count()


def test_the_first_screen_says_whether_it_helped(page_file: Path, open_page: Callable[..., Page]) -> None:
    page = open_page(page_file)
    first = page.locator("main, body").first.inner_text()
    assert "1 of 2 leak more" in first
    assert "defended leaks less than plain" in first
    assert EVIL in first  # as text
    assert page.title() != "gone"
    assert page.locator("img[src=x]").count() == 0


def test_a_runs_name_is_text_in_charts_too(page_file: Path, open_page: Callable[..., Page]) -> None:
    page = open_page(page_file)
    drawn(page, "trade-off-chart")
    assert EVIL in page.locator("#trade-off-chart .legend").text_content()
    assert page.locator("#trade-off-chart .legend a").count() == 0


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_both_charts_draw_a_mark_for_each_run(
    page_file: Path, open_page: Callable[..., Page], width: int, dark: bool
) -> None:
    page = open_page(page_file, width=width, dark=dark)
    assert drawn(page, "differences-chart") >= 2 * 10
    assert drawn(page, "trade-off-chart") == 3
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 1  # no horizontal scrolling


def test_it_prints(page_file: Path, open_page: Callable[..., Page]) -> None:
    page = open_page(page_file)
    assert page.pdf().startswith(b"%PDF")
