"""A table on the screen has whole words, whatever the width of the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from leakscope.cli.tables import FittedTable, column_widths

HEAD = ["defence", "rating", "change of AUC", "most exposed 1%", "in short"]
ROWS = [
    ["label_smoothing(share=0.05)", "low", "-0.069 (-0.106 to -0.032)", "undefined", "recommended"],
    ["dp_sgd", "moderate", "-0.034", "undefined", "no difference detected, worse than selena"],
]


def shown(table: FittedTable, width: int) -> str:
    screen = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    screen.print(table)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.mark.parametrize("has_lines", [True, False])
@pytest.mark.parametrize("width", [40, 60, 70, 80, 100, 120, 200])
def test_no_word_is_broken_and_no_line_too_long(width: int, has_lines: bool) -> None:
    text = shown(FittedTable(HEAD, ROWS, title="Defences", caption="A caption.", has_lines=has_lines), width)
    assert max(map(len, text.splitlines())) <= width
    words = {word.strip(":;") for word in text.split()}
    for cell in (*HEAD[1:], *ROWS[0], *ROWS[1], "Defences", "A caption."):
        assert {word.strip(":;") for word in cell.split()} <= words, cell


def test_lines_go_first_then_the_table() -> None:
    table = FittedTable(HEAD, ROWS, title="Defences")
    widths = [column_widths([HEAD, *ROWS], available) for available in (200, 62, 61)]
    assert widths == [[27, 8, 25, 15, 41], [27, 8, 7, 9, 11], None]
    assert "┃" in shown(table, 200)
    assert "┃" not in shown(table, 75) and "most" in shown(table, 75)
    assert "\ndp_sgd\n  rating: moderate; change of AUC: -0.034;" in shown(table, 60)


def test_a_word_that_fits_nowhere_is_not_lost() -> None:
    address = "https://archive.ics.uci.edu/dataset/2/adult"
    text = shown(FittedTable(["name", "source"], [["adult", address]], has_lines=False), 30)
    assert address in text.replace("\n", "").replace("  ", "")
