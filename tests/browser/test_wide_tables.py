"""A table wider than the screen scrolls; its words stay whole."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from leakscope.report import page as report_page
from leakscope.report.blocks import Table

if TYPE_CHECKING:
    from playwright.sync_api import Page

NUMBERS = ["-0.069 (-0.106 to -0.032)"] * 8
VERDICT = "no difference detected, worse than early_stopping"


@pytest.mark.parametrize("width", [1200, 390])
def test_a_column_of_text_is_not_squeezed_to_a_letter(
    width: int, tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    table = Table(["defence", *(f"change {k}" for k in range(8)), "in short"], [["mixup", *NUMBERS, VERDICT]])
    section = report_page.Section("trade", "Trade", [table])
    (tmp_path / "report.html").write_text(report_page.Page("t", ["lead"], [], [section], []).render())
    page = open_page(tmp_path / "report.html", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    squeezed, whole = page.evaluate(
        """() => {
            const cell = document.querySelector("#trade td:last-child");
            const left = cell.getBoundingClientRect().width;
            cell.textContent = "early_stopping";
            cell.style.whiteSpace = "nowrap";
            return [left, cell.getBoundingClientRect().width];
        }"""
    )
    assert squeezed >= whole - 1


def test_headings_of_numbers_wrap_before_the_last_column_leaves_the_screen(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    head = ("records n", "Gaussian fit", "nearest neighbors", "their floor", "fit, same records",
            "neighbors if the fit were right", "quality of the fit")  # fmt: skip
    row = ("10", "12.3 (7.02 to 18.7)", "1.86 (1.34 to 2.46)", "-0.0161 (-0.00674 to 0.027)", "8.45", "2.33",
           "undecided, saturated (-8% ± 21%)")  # fmt: skip
    section = report_page.Section("output", "Output", [Table(head, [row])])
    (tmp_path / "report.html").write_text(report_page.Page("t", ["lead"], [], [section], []).render())
    page = open_page(tmp_path / "report.html", width=1100)
    inside, outside = page.evaluate(
        "(() => { const box = document.querySelector('#output .scroll');"
        " return [box.scrollWidth, box.clientWidth]; })()"
    )
    assert inside <= outside


@pytest.mark.parametrize("dark", [False, True])
def test_an_edge_where_a_table_goes_on_has_a_shade(
    dark: bool, tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    """On a phone, nothing else says that a table has columns beyond the screen."""
    table = Table(["attack", *(f"TPR {k}" for k in range(8))], [["lira", *NUMBERS]])
    section = report_page.Section("wide", "Wide", [table])
    (tmp_path / "report.html").write_text(report_page.Page("t", ["lead"], [], [section], []).render())
    page = open_page(tmp_path / "report.html", width=390, dark=dark)
    box = page.locator("#wide .scroll")

    def edges() -> tuple[int, int]:
        """How far the pixels beside the left and the right edge are from the paper, in the middle."""
        pixels = np.asarray(Image.open(io.BytesIO(box.screenshot())).convert("L"), dtype=int)
        paper = int(np.bincount(pixels.ravel()).argmax())
        return tuple(int(np.median(np.abs(pixels[:, at] - paper))) for at in (0, -1))  # type: ignore[return-value]

    left, right = edges()
    assert left <= 2 and right > 20
    box.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    left, right = edges()
    assert left > 20 and right <= 2
