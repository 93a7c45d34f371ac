"""An audit's page in a real browser: it draws, responds to mouse and keyboard, and makes no requests.

Every test also fails when the page asks the network for anything or writes to the console (`open_page`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from leakscope.disclosure import Disclosure
from leakscope.evaluate.gate import Gate
from leakscope.report.page import PAGE, REDACTED_PAGE
from tests.browser.waiting import eventually
from tests.synthetic_runs import HOSTILE, Synthetic, hostile

if TYPE_CHECKING:
    from playwright.sync_api import Page

Opener = Callable[..., "Page"]
ROWS = "#records-table tbody tr"
FIRST_PAINT_MS, STEP_MS = 3_000, 150


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "audit"
    groups = {"city": np.array(["Rome", "Paris"])[np.arange(120) % 2]}
    Synthetic(groups=groups, pictures=True, gate=Gate(max_auc=0.52)).audited(folder)
    return folder


@pytest.fixture
def page(run: Path, open_page: Opener) -> Page:
    return ready(open_page(run / PAGE))


@pytest.fixture
def fresh_page(run: Path, open_page: Opener) -> Page:
    """For what takes time: no process that has shown a page before."""
    return ready(open_page(run / PAGE, fresh=True))


def ready(page: Page) -> Page:
    page.wait_for_selector(f"{ROWS}[data-row]")
    return page


def drawn(page: Page, chart: str) -> None:
    """Waits until plotly has drawn a chart, scrolling to it."""
    page.locator(f"#{chart}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#{chart} .main-svg")


def test_every_chart_is_drawn_with_its_words_and_numbers(page: Page) -> None:
    for chart in ("roc-chart", "scores-chart", "groups-0", "groups-1", "bits-chart"):
        drawn(page, chart)
        assert len(page.locator(f"#{chart} .plot").get_attribute("aria-label") or "") > 20
    page.locator("#roc-chart summary").click()
    assert page.locator("#roc-chart table").is_visible()


def test_the_prior_moves_precision(fresh_page: Page) -> None:
    page = fresh_page
    cell = page.locator("#precision-table .precision").last
    before = float(cell.inner_text().rstrip("%"))
    page.locator("#prior").focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    eventually(page, "performance.getEntriesByName('prior').length === 5")
    steps = page.evaluate("performance.getEntriesByName('prior').map((step) => step.duration)")
    assert min(steps) < STEP_MS  # one that no other process came between
    assert float(cell.inner_text().rstrip("%")) < before
    assert page.locator("#prior-shown").inner_text() != "10.0%"


def test_search_filter_and_sort_choose_rows(page: Page) -> None:
    page.fill("#records-search", "person-0004")
    eventually(page, f"document.querySelectorAll('{ROWS}').length === 10")
    assert page.locator("#records-count").inner_text() == "10 of 120 records"
    page.fill("#records-search", "paris")
    assert page.locator("#records-count").inner_text() == "60 of 120 records"
    page.fill("#records-search", "")
    page.locator("select[data-filter]").nth(1).select_option(label="Rome")
    assert page.locator("#records-count").inner_text() == "60 of 120 records"
    page.get_by_role("button", name="record", exact=True).click()
    ids = page.locator(f"{ROWS} th").all_inner_texts()
    assert ids == sorted(ids) and ids[0] == "person-00000"
    page.get_by_role("button", name="record", exact=True).click()
    assert page.locator(f"{ROWS} th").first.inner_text() == "person-00118"
    assert page.locator("th[data-key=id]").get_attribute("aria-sort") == "descending"


def test_exposed_only_and_pages(page: Page) -> None:
    page.check("#records-exposed")
    assert int(page.locator("#records-count").inner_text().split()[0]) <= 20
    page.uncheck("#records-exposed")
    first = page.locator(f"{ROWS} th").first.inner_text()
    page.click("#records-next")
    assert page.locator("#records-page").inner_text() == "26 to 50"
    assert page.locator(f"{ROWS} th").first.inner_text() != first


def test_a_record_opens_by_keyboard_with_its_outputs_and_trajectory(page: Page) -> None:
    opener = page.locator(f"{ROWS} button").first
    opener.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#record[open]")
    assert page.locator("#record-id").inner_text() == opener.inner_text()
    assert "of 8 models trained on it" in page.locator("#record-facts").inner_text()
    page.wait_for_selector("#record-strip .main-svg")
    page.wait_for_selector("#record-path .main-svg")
    points = page.evaluate("leakscope.figure('record-strip').data.map((trace) => trace.x.length)")
    assert points == [8, 8]
    inside, outside = page.evaluate("leakscope.figure('record-path').data.map((trace) => trace.y)")
    assert len(inside) == 3 and inside[-1] - outside[-1] > 1.5  # memorised
    assert page.locator("#record-picture").is_visible()
    page.keyboard.press("Escape")
    page.wait_for_selector("#record", state="hidden")
    assert page.evaluate("document.activeElement.className").startswith("link")


def test_another_attacks_scores_are_shown_on_request(page: Page) -> None:
    drawn(page, "scores-chart")
    page.select_option("select[data-chart=scores-chart]", "loss")
    shown = page.evaluate("leakscope.figure('scores-chart').data.filter((t) => t.visible).map((t) => t.meta)")
    assert shown == ["loss", "loss"]


def colour_of(page: Page, of: str) -> str:
    return str(page.evaluate(f"getComputedStyle(document.body).{of}"))


def test_dark_follows_the_system_and_the_button(run: Path, open_page: Opener) -> None:
    light, dark = open_page(run / PAGE), open_page(run / PAGE, dark=True)
    assert colour_of(light, "backgroundColor") == "rgb(255, 255, 255)"
    assert colour_of(dark, "backgroundColor") == "rgb(20, 24, 29)"
    drawn(dark, "roc-chart")
    tick = "getComputedStyle(document.querySelector('#roc-chart .xtick text')).fill"
    assert dark.evaluate(tick) == "rgb(232, 236, 240)"
    dark.click("#theme")
    assert colour_of(dark, "backgroundColor") == "rgb(255, 255, 255)"
    eventually(dark, f"{tick} === 'rgb(26, 32, 39)'")


def test_a_phone_shows_it_without_sideways_scrolling(run: Path, open_page: Opener) -> None:
    phone = open_page(run / PAGE, width=390, height=844)
    drawn(phone, "roc-chart")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


def test_it_prints_light_with_every_chart(run: Path, open_page: Opener, tmp_path: Path) -> None:
    page = open_page(run / PAGE, dark=True)
    eventually(page, "document.querySelectorAll('main > section .main-svg').length > 9")  # in idle time
    page.emulate_media(media="print")
    assert not page.locator(".top").is_visible() and not page.locator("#records-search").is_visible()
    assert page.locator(f"{ROWS} th").first.is_visible()
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    printed = (tmp_path / "report.pdf").read_bytes()
    assert printed.startswith(b"%PDF") and len(printed) > 50_000


def test_first_paint_is_quick(fresh_page: Page) -> None:
    paint = fresh_page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < FIRST_PAINT_MS


def test_hostile_texts_are_shown_and_do_nothing(tmp_path: Path, open_page: Opener) -> None:
    texts = hostile(60)
    groups = {HOSTILE[1]: texts[np.arange(60) % 7], "n": np.array(["1"] * 60)}
    Synthetic(n_records=60, n_models=8, ids=texts, class_names=HOSTILE[:3], groups=groups).audited(tmp_path)
    page = open_page(tmp_path / PAGE)
    page.wait_for_selector(f"{ROWS}[data-row]")
    for chart in ("groups-0", "groups-1", "groups-2"):
        drawn(page, chart)
    for text in HOSTILE:
        page.fill("#records-search", text.lower()[:40])
        page.locator(f"{ROWS} button", has_text=text[:40]).first.click()
        page.wait_for_selector("#record[open]")
        assert text[:40] in (page.locator("#record-id").text_content() or "")
        page.keyboard.press("Escape")
        page.wait_for_selector("#record", state="hidden")
    assert page.title() == "What models of this recipe reveal about membership: made-up · leakscope"
    assert page.locator("img, a[href^='http'], iframe").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_redacted_page_still_works(tmp_path: Path, open_page: Opener) -> None:
    Synthetic(n_records=60, n_models=8, n_checkpoints=1).audited(tmp_path, Disclosure(redacted=True))
    page = open_page(tmp_path / REDACTED_PAGE)
    page.wait_for_selector("#roc-chart .main-svg")
    before = page.locator("#precision-table").inner_text()
    page.locator("#prior").fill("-3")
    assert page.locator("#precision-table").inner_text() != before
    assert page.locator("#records-table").count() == 0
