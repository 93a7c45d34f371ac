"""A headless Chromium that notices every request and every error; skipped where there is none.

Debian's `chromium` is driven by playwright; nothing is downloaded. `open_page` gives a page that has been
loaded from a file, and at the end of the test fails if the page asked the network for anything or if
anything was written to the console.

The first page of a test is loaded into the tab of the test before: its process has compiled the script of the
charts already, which is three quarters of the time that a new one takes. Pages store nothing, and a test that
measures time opens a `fresh` one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
_LOCAL = ("file:", "data:", "blob:", "about:")


@dataclass
class Noise:
    """What a report must never do."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a process."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        yield started
        started.close()


class Tab(NamedTuple):
    """A page, and what it has done that it must not."""

    page: Page
    noise: Noise


def new_tab(browser: Browser) -> Tab:
    """In a context and a process of its own."""
    tab = Tab(browser.new_context().new_page(), Noise())
    tab.page.set_default_timeout(60_000)  # more than a busy machine needs
    listen(tab.page, tab.noise)
    return tab


@pytest.fixture(scope="session")
def first_tab(browser: Browser) -> Tab:
    """The tab of the first page of every test."""
    return new_tab(browser)


@pytest.fixture
def open_page(browser: Browser, first_tab: Tab) -> Iterator[Callable[..., Page]]:
    """`open_page(path, width=1280, height=860, dark=False, fresh=False)`; no request or complaint may follow.

    The second page of a test, and one that is to be `fresh`, is in a new tab. A `script` for a fresh one runs
    before the page's own.
    """
    tabs: list[Tab] = []

    def opened(
        path: Path,
        width: int = 1280,
        height: int = 860,
        dark: bool = False,
        fresh: bool = False,
        script: str | None = None,
    ) -> Page:
        tab = new_tab(browser) if fresh or first_tab in tabs else first_tab
        if script is not None:
            assert fresh
            tab.page.add_init_script(script)
        tabs.append(tab)
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.page.emulate_media(media="null", color_scheme="dark" if dark else "light")
        tab.page.goto(path.as_uri())
        assert tab.page.evaluate("window.leakscope !== undefined")
        return tab.page

    yield opened
    noise = Noise()
    for tab in tabs:
        tab.page.mouse.move(0, 0)
        tab.page.goto("about:blank")  # nothing of this page goes on, and nothing of it is left
        noise.requests += tab.noise.requests
        noise.complaints += tab.noise.complaints
        if tab is first_tab:
            tab.noise.requests.clear()
            tab.noise.complaints.clear()
        else:
            tab.page.context.close()
    assert noise.requests == []
    assert noise.complaints == []


def listen(page: Page, noise: Noise) -> None:
    """Notes requests that leave the file, console messages and uncaught errors."""

    def request(asked: Any) -> None:
        if not asked.url.startswith(_LOCAL):
            noise.requests.append(asked.url)

    page.on("request", request)
    page.on("console", lambda message: noise.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: noise.complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: noise.complaints.append(f"dialog: {dialog.message}"))
