"""What somebody who must sign a report sees: first screen, words explained, paper, no scripts, any window.

Every test also fails when the page asks the network for anything or writes to the console (`open_page`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from leakscope.evaluate.gate import Gate
from leakscope.report.page import PAGE
from tests.browser.conftest import Noise, listen
from tests.browser.waiting import eventually
from tests.synthetic_runs import Synthetic

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Opener = Callable[..., "Page"]
LONG = "the village of birth of each person as it stands in the register of the parish"
FIRST_TERM = "section.first a.term"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without a gate; a column of very long names, and one of more groups than are evaluated."""
    folder = tmp_path_factory.mktemp("runs") / "audit"
    rows = np.arange(120)
    groups = {
        LONG: np.array([f"{LONG}, number {n % 3} {'x' * 80}" for n in rows]),
        "house": np.array([f"house {n % 60}" for n in rows]),
    }
    names = ("a diagnosis with a name that goes on and on", "y" * 120)
    Synthetic(groups=groups, class_names=names).audited(folder)
    return folder


def bottom(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box["y"] + box["height"]


def has_no_sideways_scrolling(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_rating_sentence_picture_and_advice_are_on_the_first_screen(
    width: int, height: int, run: Path, open_page: Opener
) -> None:
    page = open_page(run / PAGE, width=width, height=height)
    assert "Rating: " in page.locator(".badges").inner_text()
    for part in (".badges", ".lead", ".levels .track", ".verdict .actions li"):
        assert bottom(page, part) <= height, part


def test_a_picture_says_in_words_what_it_draws(run: Path, open_page: Opener) -> None:
    rating = json.loads((run / "results.json").read_text())["rating"]
    rows = open_page(run / PAGE).locator(".levels li").all_inner_texts()
    parts = [part for part in rating["parts"] if part["about"] in ("auc", "tpr", "worst")]
    assert len(rows) == len(parts)
    assert all(part["level"] in row for part, row in zip(parts, rows, strict=True))
    assert all(" to " in row for row in rows)


def test_no_exposed_record_is_said_without_green(tmp_path: Path, open_page: Opener) -> None:
    Synthetic(leak=0.0, n_records=400).audited(tmp_path)
    page = open_page(tmp_path / PAGE)
    assert "No record is individually exposed" in page.locator(".findings").inner_text()
    assert "none found" in page.locator(".badges").inner_text()
    assert page.locator(".first .good").count() == 0
    assert "-0.00" not in page.locator("section.first").inner_text()


# ---- words ----


def test_a_word_is_explained_on_hover_and_on_focus(run: Path, open_page: Opener) -> None:
    page = open_page(run / PAGE)
    term, meaning = page.locator(f"{FIRST_TERM}[href='#word-auc']").first, page.locator("#meaning")
    term.hover()
    assert "coin toss" in meaning.inner_text()
    assert term.get_attribute("aria-describedby") == "meaning"
    meaning.hover()  # the pointer can go there to read
    page.wait_for_timeout(400)
    assert meaning.is_visible()
    page.mouse.move(5, 5)
    page.wait_for_selector("#meaning", state="hidden")
    term.focus()
    assert meaning.is_visible()
    page.keyboard.press("Escape")
    assert not meaning.is_visible() and term.get_attribute("aria-describedby") is None
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#word-auc"


def test_every_word_has_an_entry_and_is_explained_once_per_section(run: Path, open_page: Opener) -> None:
    page = open_page(run / PAGE)
    for section in page.locator("main > section").all():
        links = [term.get_attribute("href") for term in section.locator("a.term").all()]
        assert len(links) == len(set(links))
        assert all(page.locator(str(link)).count() == 1 for link in links)
    assert page.locator("a.term").count() > 20
    assert page.locator("#records-table a.term, button a.term, h2 a.term").count() == 0


@pytest.mark.parametrize("width", [390, 320])
def test_a_tap_explains_a_word_within_the_window(width: int, run: Path, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto((run / PAGE).as_uri())
    for term in page.locator(FIRST_TERM).all()[:6]:
        term.scroll_into_view_if_needed()
        term.tap()
        box = page.locator("#meaning").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
        page.locator("#meaning").tap()  # it may cover the next word
        assert not page.locator("#meaning").is_visible()
    assert page.evaluate("location.hash") == ""  # a tap explains, and does not jump
    context.close()


# ---- paper ----


def test_it_prints_as_a_document(run: Path, open_page: Opener) -> None:
    pdf = pytest.importorskip("pypdfium2")
    page = open_page(run / PAGE, dark=True)
    eventually(page, "document.querySelectorAll('main > section .main-svg').length > 9")
    printed = pdf.PdfDocument(page.pdf(format="A4"))
    sheets = [" ".join(sheet.get_textpage().get_text_range().split()) for sheet in printed]
    date = json.loads((run / "manifest.json").read_text())["created"][:10]
    for number, text in enumerate(sheets, 1):
        assert "What models of this recipe reveal about membership: made-up" in text
        assert date in text and f"page {number} of {len(sheets)}" in text
        assert "file:" not in text and "http" not in text
    assert "Signature" in sheets[0] and "Limitations" in sheets[0] and "What to do" in sheets[0]
    whole = " ".join(sheets)
    assert "Mean TPR over targets at some false positive rates" in whole  # folded on the screen
    assert "coin toss" in whole  # the list of words
    assert page.locator("details[open]").count() == 0  # on the screen they are folded again
    corner = printed[0].render(scale=0.2).to_pil().convert("L").getpixel((2, 2))
    assert corner == 255  # dark on the screen, white on paper


def test_nothing_is_wider_than_the_paper(run: Path, open_page: Opener) -> None:
    """A sheet of A4 within its margins is 180 mm, 680 px; what is wider would shrink the whole document."""
    page = open_page(run / PAGE, width=680, height=960)
    page.wait_for_selector("#records-table tbody tr[data-row]")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wide = page.evaluate(
        "[...document.querySelectorAll('main *')].filter((e) => e.checkVisibility() && !e.closest('svg')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map((e) => `${e.tagName} ${e.className}`)"
    )
    assert wide == []


# ---- any reader, any window ----


def test_without_scripts_the_tables_remain(run: Path, browser: Browser) -> None:
    noise = Noise()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    page = context.new_page()
    listen(page, noise)
    page.goto((run / PAGE).as_uri())
    assert page.locator(".levels").is_visible() and page.locator(".actions").is_visible()
    assert "Scripts are disabled" in page.locator("noscript p").inner_text()
    assert page.locator("#records-table tbody tr").count() == 25
    assert page.locator("#words dt").count() > 10
    for dead in (".controls", "#theme", ".plot"):
        assert not page.locator(dead).first.is_visible(), dead
    page.locator("#roc-chart summary").click()
    assert page.locator("#roc-chart table").is_visible()
    context.close()
    assert noise.requests == []


@pytest.mark.parametrize(("width", "height"), [(640, 450), (320, 640)])
def test_enlarged_two_and_four_times_it_reflows(
    width: int, height: int, run: Path, open_page: Opener
) -> None:
    """A window of 1280 px enlarged to 200% and 400% is one of 640 and 320 px."""
    page = open_page(run / PAGE, width=width, height=height)
    page.wait_for_selector("#records-table tbody tr[data-row]")
    assert has_no_sideways_scrolling(page)


def test_more_groups_than_are_evaluated_are_said(run: Path, open_page: Opener) -> None:
    words = open_page(run / PAGE).locator("#groups").inner_text()
    assert "Not evaluated by house: 60 groups; at most 50 are evaluated. Merge groups" in words
    assert "is more exposed than the records as a whole beyond chance" in words or "Some groups are" in words


def test_groups_with_long_names_have_a_row_each(run: Path, open_page: Opener) -> None:
    page = open_page(run / PAGE, width=390, height=844)
    page.locator("#groups-0").scroll_into_view_if_needed()
    page.wait_for_selector("#groups-0 .main-svg")
    assert page.locator("#groups-0 .ytick text").count() == 3
    assert len(set(page.evaluate("leakscope.figure('groups-0').data[0].y"))) == 3


def test_a_screen_reader_meets_headings_in_order_and_no_unnamed_picture(run: Path, open_page: Opener) -> None:
    page = open_page(run / PAGE)
    page.wait_for_selector("#records-table tbody tr[data-row]")
    levels = page.evaluate(
        "[...document.querySelectorAll('main :is(h1, h2, h3, h4)')].filter((h) => !h.closest('dialog'))"
        ".map((h) => Number(h.tagName[1]))"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    unnamed = page.evaluate(
        "[...document.querySelectorAll('main [role=img], main section, main [role=region]')]"
        ".filter((e) => !(e.ariaLabel || e.getAttribute('aria-labelledby')))"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert unnamed == []
    order = page.locator("section.first :is(h1, h2)").all_inner_texts()
    assert order[1:] == ["What to do", "Findings", "What was run", "Limitations"]


def test_a_gate_has_its_gauge_first_and_the_levels_below(tmp_path: Path, open_page: Opener) -> None:
    Synthetic(gate=Gate(max_auc=0.52)).audited(tmp_path)
    page = open_page(tmp_path / PAGE)
    assert page.locator(".first .gauge").count() == 1 and page.locator(".first .levels").count() == 0
    assert page.locator("#what-to-do .levels").count() == 1
