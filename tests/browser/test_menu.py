"""The menu of a page marks the section that is being read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.report import page as report_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

_MARKED = "[...document.querySelectorAll('.top nav a[aria-current]')].map((a) => a.hash.slice(1))"


def test_the_menu_follows_to_the_end_and_back_to_the_top(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    names = [f"part-{k}" for k in range(6)]
    body = [[f"Sentence {line}." for line in range(2 if name == names[-1] else 30)] for name in names]
    sections = [report_page.Section(name, name, text) for name, text in zip(names, body, strict=True)]
    (tmp_path / "report.html").write_text(report_page.Page("t", ["lead"], [], sections, []).render())
    page = open_page(tmp_path / "report.html", height=700)

    def marked_at(place: str) -> list[str]:
        page.evaluate(f"window.scrollTo(0, {place})")
        page.evaluate("window.leakscope.nextFrame()")
        return list(page.evaluate(_MARKED))

    linked = page.evaluate("[...document.querySelectorAll('.top nav a')].map((a) => a.hash.slice(1))")
    shown = page.evaluate("[...document.querySelectorAll('main > section[id]')].map((s) => s.id)")
    start = marked_at("0")
    middle = marked_at("document.querySelector('#part-3').getBoundingClientRect().top + scrollY")
    assert middle == ["part-3"]
    end = marked_at("document.documentElement.scrollHeight")
    assert end == [[name for name in shown if name in linked][-1]]
    assert end != start == marked_at("0")
