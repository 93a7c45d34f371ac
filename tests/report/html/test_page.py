"""The page around every report: escaped, self-contained, guarded by its policy, readable."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from leakscope.report.blocks import Table
from leakscope.report.charts import Chart, script_json
from leakscope.report.gauge import Gauge
from leakscope.report.page import Badge, Page, Section, asset
from leakscope.report.paper import css_string
from leakscope.report.words import WORDS
from tests.synthetic_runs import HOSTILE

_VOID = {"meta", "link", "input", "br", "img", "line", "rect", "circle"}


class Parsed(HTMLParser):
    """Elements, attributes and scripts of a page; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script" and "type" not in self.found[-1][1]:
            self.scripts.append(data)
        else:
            self.text.append(data)


def report(text: str = "plain") -> Page:
    figure = {"data": [{"x": np.arange(3), "y": [1, np.nan, 2], "name": text}], "layout": {"title": text}}
    numbers = Table([text, "b"], [[text, "1"]], text)
    return Page(
        title=text,
        headline=[text, text],
        facts=[(text, text)],
        sections=[Section("one", text, [text, Chart("c", figure, text, numbers, title=text)], note=text)],
        arrays={"x": np.arange(4), "ids": np.array([text])},
        limits=[text],
        picture=Gauge(text, 0.6, 0.5, 0.7, 0.5, 1.0, limit=0.55, passed=False, reference=0.5),
        redacted=True,
        badges=[Badge(text, "bad")],
    )


def whole_page(text: str = "plain") -> str:
    return report(text).render()


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_stays_text(text: str) -> None:
    plain, hostile = Parsed(whole_page()), Parsed(whole_page(text))
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in plain.found]  # it made no element
    assert hostile.scripts == plain.scripts
    assert "".join(hostile.text).count(text) >= 8  # and is there


def test_the_policy_allows_the_pages_own_scripts_and_nothing_else() -> None:
    page = whole_page()
    parsed = Parsed(page)
    (policy,) = (a["content"] for tag, a in parsed.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy and "http" not in policy
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    own = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in parsed.scripts}
    assert own and own <= allowed and len(allowed) == len(own) + 1  # one more: plotly, unpacked later


def test_a_page_names_nothing_outside_itself() -> None:
    attributes = [
        value for _, a in Parsed(whole_page()).found for k, value in a.items() if k in ("src", "href")
    ]
    assert all(value is not None and value.startswith(("#", "data:,")) for value in attributes)


def test_ids_are_unique_and_sections_are_in_the_menu() -> None:
    found = Parsed(whole_page()).found
    ids = [a["id"] for _, a in found if "id" in a]
    assert len(ids) == len(set(ids))
    assert ("a", {"href": "#one"}) in found


def test_plotly_is_embedded_once_and_packed() -> None:
    assert len(whole_page()) < 2_500_000
    assert whole_page().count('id="plotly"') == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_json_in_a_script_reads_back_and_cannot_end_it(text: str) -> None:
    written = script_json({"a": [text, float("nan")]})
    assert json.loads(written) == {"a": [text, None]}
    assert not set(written) & set("<>&")


def test_tables_set_numbers_to_the_right_and_name_their_rows() -> None:
    rows = [["a", "1,000", "x", "not resolvable"], ["b", "−2.5", "y", "1%"]]
    made = Table(["who", "n", "word", "rate"], rows).html()
    assert made.count('class="number"') == 2 * (1 + 2)
    assert '<th scope="row">a</th>' in made and '<th scope="col">who</th>' in made


def test_long_names_of_rows_break_between_words_and_are_escaped() -> None:
    made = Table(["who", "n"], [["label_smoothing(share=0.3)", "1"], ["<b>_a_(1234567)", "2"]]).html()
    assert '<th scope="row">label_<wbr>smoothing<wbr>(share=0.3)</th>' in made
    assert '<th scope="row">&lt;b&gt;_<wbr>a_<wbr><wbr>(1234567)</th>' in made


def test_paragraphs_escape() -> None:
    assert Section("a", "a", ["a<b"]).html() == "<p>a&lt;b</p>\n"


def test_a_gauge_has_a_text_description() -> None:
    words = "AUC: 60.0% (95% interval 55.0% to 65.0%); the limit is 52.0%"
    made = Gauge("AUC", 0.6, 0.55, 0.65, 0.5, 1.0, 0.52, False, percent=True).html()
    assert f'aria-label="{words}"' in made and "failed" in made
    assert "not measurable" in Gauge("TPR", None, None, None, 0.0, 1.0, 0.5, False).html()


def luminance(colour: str) -> float:
    """WCAG 2's relative luminance of #rrggbb."""
    channels = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [":root {", ':root[data-theme="dark"] {'])
def test_text_contrasts_with_what_it_stands_on(theme: str) -> None:
    rules = asset("page.css").split(theme, 1)[1].split("}", 1)[0]
    colours = dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})(?=;)", rules))
    for ground in ("--paper", "--raised"):
        for text in ("--ink", "--muted", "--accent", "--good", "--bad"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for k in range(7):
        assert contrast(colours[f"--c{k}"], colours["--paper"]) >= 3, k


VISION = {  # Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB, rounded
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("theme", [":root {", ':root[data-theme="dark"] {'])
@pytest.mark.parametrize("vision", VISION)
def test_levels_differ_in_lightness_for_color_blind_readers(theme: str, vision: str) -> None:
    """Each level is darker than the one before, in a dark theme lighter, whatever colors a reader sees."""
    rules = asset("page.css").split(theme, 1)[1].split("}", 1)[0]
    levels = [re.search(rf"--l{k}: #([0-9a-f]{{6}})", rules) for k in range(5)]
    rgb = np.array([[int(found[1][at : at + 2], 16) for at in (0, 2, 4)] for found in levels if found]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(VISION[vision]).T, 0, 1) @ [0.2126, 0.7152, 0.0722]
    steps = np.diff(116 * np.cbrt(seen))  # lightness L*
    assert len(seen) == 5 and (np.sign(steps[1:]) == np.sign(steps[1])).all() and (abs(steps[1:]) > 8).all()


def test_a_title_cannot_leave_the_margin_of_paper() -> None:
    for text in HOSTILE:
        written = css_string(text)
        assert not set(written[1:-1]) & set("\"'<>{};\n") and written[0] == written[-1] == '"'


def test_every_word_of_a_page_is_explained_once_and_stands_in_the_glossary() -> None:
    page = Page(
        "t", ["The AUC of non-members."], [], [Section("s", "S", ["95% interval of the TPR"])], []
    ).render()
    shown = re.findall(r'id="word-([\w-]+)"', page)
    assert shown == ["non-member", "auc", "tpr", "interval"]
    glossary = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text()
    for word in WORDS:
        assert word.term.split(" (")[0] in glossary, word.term
