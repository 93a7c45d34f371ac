"""A headless Chromium that notices every request and every error; skipped where there is none.

Debian's `chromium` is driven by playwright; nothing is downloaded. `open_page` gives a page that has been
loaded from a file, and at the end of the test fails if the page asked the network for anything or if
anything was written to the console.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """`open_page(path, width=1280, height=860, dark=False)`; no request and no complaint may follow."""
    noise, contexts = Noise(), []

    def opened(path: Path, width: int = 1280, height: int = 860, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # more than a busy machine needs
        listen(page, noise)
        page.goto(path.as_uri())
        assert page.evaluate("window.leakscope !== undefined")
        return page

    yield opened
    for context in contexts:
        context.close()
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
