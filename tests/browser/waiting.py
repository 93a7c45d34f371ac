"""Waiting for a page that forbids eval: playwright's own wait_for_function cannot ask it twice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def eventually(page: Page, expression: str, seconds: float = 60.0) -> None:
    """Returns when the expression is true in the page; fails when it has not become so."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(50)
