"""One page: verdict first, then sections, everything inside one file.

    Page(title, headline, facts, sections, arrays, limits).render()    the whole page as text

A page has a first screen (title, `headline`, an optional gauge, `facts` about what was run, `limits`: what
it does not show), then one `Section` after another, listed in a menu. Style, scripts, plotly and the numbers
are inside; a strict content security policy lets the browser run our scripts (known by their hashes) and
load nothing at all. Text from data goes through jinja2's escaping here, and through `textContent` in scripts.

Scripts of a page's own lie in assets/ and are named in `scripts`; they find in `window.leakscope`:

    array(name)         promise of {values, shape}: a typed array, or a list of strings
    figure(id)          the figure given to charts.chart, to change and
    draw(id, figure)    draw again; resolves when drawn
    colour("--c0")      a colour of the present theme; onTheme(f) calls f when the theme changes
    timed(name, f)      runs f, and notes as performance.measure(name) how long it took from the key or
                        pointer that asked for it to the frame that shows it; no chart is drawn right after
    opening(promise)    what is to be seen before plotly is evaluated, which blocks the page for a moment
    settled()           promise that this moment is over; what must answer at once is open from then on
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
        id: of the element; unique on the page.
        title: its heading, and its line in the menu.
        body: markup from `template`, `chart` or `table`.
        note: a sentence under the heading, as text.
    """

    id: str
    title: str
    body: Markup
    note: str = ""


@dataclass(frozen=True)
class Badge:
    """A word or two beside the title: "Gate failed"."""

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
    """Our scripts by their hashes, nothing from anywhere else.

    Styles may be inline: plotly sets them, and without a network they can tell nobody anything.
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
    """A third of its 4.8 MB; the page's script unpacks it after the first paint."""
    return packed(_plotly().encode())
