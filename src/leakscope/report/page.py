"""One page: verdict first, then sections, all in one file.

    Page(title, headline, facts, sections, arrays, limits).render()    the whole page as text

A page starts with title, `headline`, an optional gauge, `facts` about the run and `limits` of what it says;
one `Section` after another follows, listed in a menu. Style, scripts, plotly and numbers are embedded. A
strict content security policy lets the browser run our scripts, identified by their hashes, and load nothing
else. Text from data is escaped by jinja2 here, and set through `textContent` in scripts.

A page may name further scripts of assets/ in `scripts`. `window.leakscope` offers them:

    array(name)         promise of {values, shape}: a typed array, or a list of strings
    figure(id)          the figure given to charts.chart; change it, then
    draw(id, figure)    draw it again; resolves when done
    colour("--c0")      a color of the current theme; onTheme(f) calls f when the theme changes
    timed(name, f)      runs f and records the time from the user's input to the next frame as
                        performance.measure(name); no chart is drawn right afterwards
    opening(promise)    work to finish before plotly is evaluated, which blocks the page for a moment
    settled()           resolves once that moment is over; interactive parts wait for it
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from markupsafe import Markup

from leakscope.report.embed import Embeddable, embedded, packed
from leakscope.report.gauge import Gauge, gauge_svg
from leakscope.report.templates import template

PAGE = "report.html"
Tone = Literal["good", "bad", "plain"]


@dataclass(frozen=True)
class Section:
    """One section of a page.

    Attributes:
        id: id of the element; unique on the page.
        title: heading, and entry in the menu.
        body: markup from `template`, `chart` or `table`.
        note: text under the heading.
    """

    id: str
    title: str
    body: Markup
    note: str = ""


@dataclass(frozen=True)
class Badge:
    """A word or two beside the title, like "Gate failed"."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, eq=False)
class Page:
    """What a page contains.

    Attributes:
        title: title of the page; it should name the run.
        headline: the verdict in plain sentences; the first is set large.
        facts: (name, value) of what was run: records, models, recipe, dates, hashes.
        sections: the sections, in order.
        arrays: numbers for the scripts.
        limits: what the page does not say, one sentence each.
        gauge: where the main figure lies relative to its limit or scale.
        redacted: whether raw features and ids were left out, which the page then says.
        badge: a word or two beside the title.
        scripts: names of the files in assets/ that this page needs in addition to page.js and charts.js.
    """

    title: str
    headline: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    arrays: Mapping[str, Embeddable]
    limits: Sequence[str]
    gauge: Gauge | None = None
    redacted: bool = False
    badge: Badge | None = None
    scripts: Sequence[str] = ()

    def render(self) -> str:
        """The whole page as text."""
        code = [asset(name) for name in ("page.js", "charts.js", *self.scripts)]
        return template(
            "page.html.j2",
            page=self,
            arrays=embedded(self.arrays),
            gauge=None if self.gauge is None else gauge_svg(self.gauge),
            style=Markup(asset("page.css")),
            scripts=[Markup(source) for source in code],
            plotly=_packed_plotly(),
            policy=_policy([*code, _plotly()]),
        )


def paragraphs(lines: Sequence[str]) -> Markup:
    """Sentences as paragraphs, escaped."""
    return Markup("").join(Markup("<p>{}</p>\n").format(line) for line in lines)


@cache
def asset(name: str) -> str:
    """A file of assets/."""
    return (files("leakscope.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Allows our scripts by their hashes, and no other source.

    Inline styles are allowed: plotly sets them, and without network access they cannot leak data.
    """
    hashes = " ".join(f"'sha256-{_sha256(source)}'" for source in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode("ascii")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source


@cache
def _packed_plotly() -> str:
    """Compressed to a third of its 4.8 MB; the page decompresses it after the first paint."""
    return packed(_plotly().encode())
