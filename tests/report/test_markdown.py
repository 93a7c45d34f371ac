"""report.md says what the page says, and text from data can neither make HTML nor break a table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import Markup

from leakscope.report.blocks import Absent, Block, Bullets, Code, Definitions, Heading, Picture, Raw, Table
from leakscope.report.charts import Chart, Grid, line
from leakscope.report.page import MARKDOWN, PAGE, Badge, Page, Section
from tests.synthetic_runs import HOSTILE

NAMES = (
    *HOSTILE,
    "a|b",
    "a\\|b",
    "a\nb\r\n| --- |\n<td>",
    "![x](https://example.org/x.png)",
    "`a|b`",
    "```",
    "# b",
)
FIGURE = {"data": [line([0, 1], [0, 1], "a $ b_", "var(--c0)")], "layout": {"xaxis": {}, "yaxis": {}}}


def unescaped_pipes(row: str) -> int:
    """Pipes that separate cells, as GitHub counts them: a backslash escapes the character after it."""
    count, characters = 0, iter(row)
    for character in characters:
        if character == "\\":
            next(characters)
        count += character == "|"
    return count


@pytest.mark.parametrize("name", NAMES)
def test_no_name_breaks_a_table(name: str) -> None:
    caption, _, *lines = Table([name, "b"], [[name, "1"], ["c", name]], name).markdown().split("\n")
    assert len(lines) == 4 and [unescaped_pipes(row) for row in lines] == [3] * 4
    assert "\n" not in caption


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "block",
    [Absent, Heading, lambda t: Bullets([t, t]), lambda t: Definitions([(t, t)]),
     lambda t: Table([t], [[t]], t), lambda t: Picture("a", t), lambda t: Section("a", t, [t, Heading(t)], t),
     lambda t: Chart("a", FIGURE, t, Table([t], [[t]]), title=t)],
)  # fmt: skip
def test_no_name_makes_html_or_a_link(block: type[Block], name: str) -> None:
    text = block(name).markdown()  # type: ignore[call-arg]
    assert "<" not in text and not re.search(r"(?<!\\)\[[^]]*]\(http", text)
    assert not any(row.startswith(("```", "~~~", "# b")) for row in text.split("\n"))


def test_a_column_of_sentences_wraps_even_if_most_begin_with_a_number() -> None:
    """Numbers do not wrap; a column of sentences that did not would push the next ones off the screen."""
    sentence = "0.749 with the publication's seeds; 0.190 (-0.874 to 0.867) over 40 initializations"
    interval = "mean 0.4450, sd 0.1227, 0.0073 to 0.6209"
    rows = [["a", "0.190 (-0.874 to 0.867)", sentence], ["b", interval, "1"], ["c", "2", "3"]]
    table = Table(["name", "number", "words"], rows)
    assert table.markdown().split("\n")[1] == "|---|---:|---|"
    assert str(table.html()).count('class="number"') == 4  # the heading and three cells


def test_code_cannot_be_ended() -> None:
    assert Code("a\n```\n<b>").markdown() == "````\na\n```\n<b>\n````"


def test_charts_are_pictures_or_else_their_numbers() -> None:
    numbers = Table(["a"], [["1"]])
    assert Chart("a", FIGURE, "A line.", numbers, png="x y").markdown() == "![A line.](figures/x%20y.png)"
    assert Chart("a", FIGURE, "A line.", numbers).markdown() == numbers.markdown()
    assert Chart("a", FIGURE, "A line.").markdown() == ""
    both = [Chart(id, FIGURE, "A line.", png=id, title=id) for id in "ab"]
    assert Grid(both, "both").markdown() == "![a; b](figures/both.png)"
    assert "figures/a.png" in Grid(both).markdown() and "figures/b.png" in Grid(both).markdown()


@pytest.mark.slow
def test_one_description_is_written_as_page_markdown_and_figures(tmp_path: Path) -> None:
    charts = [Chart(id, FIGURE, "A line.", png=f"folder/{id}", title=id) for id in "ab"]
    sections = [
        Section("one", "First", ["A sentence.", Grid(charts, "both"), Table(["n"], [["x"]])], "A note."),
        Section("two", "Second", [Raw(Markup("<canvas></canvas>"))], "Move the slider."),
        Section("three", "Third", [Raw(Markup("<b>?</b>"), ["Instead."])]),
    ]
    Page("Title", ["Lead."], [("Records", "5")], sections, ["A limit."], [("Finished", "today")],
         badges=[Badge("Failed", "bad")]).write(tmp_path)  # fmt: skip
    assert (tmp_path / MARKDOWN).read_text() == (
        "# Title\n\n**Failed**\n\nLead.\n\n"
        "## First\n\nA note.\n\nA sentence.\n\n![a; b](figures/both.png)\n\n"
        "| n |\n|---|\n| x |\n\n## Third\n\nInstead.\n\n## What was run\n\n- Records: 5\n\n"
        "## Limitations\n\n- A limit.\n"
    )
    page = (tmp_path / PAGE).read_text()
    for part in ("Lead.", "A note.", "<canvas>", "Move the slider.", "today", "A limit."):
        assert part in page
    drawn = {str(path.relative_to(tmp_path / "figures")) for path in tmp_path.rglob("*.png")}
    assert drawn == {"both.png", "folder/a.png", "folder/b.png"}
