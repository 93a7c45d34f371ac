"""One page: verdict first, then sections, everything inside one file.

    render(title, headline, facts, sections, arrays, limits) -> the whole page as text

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


def render(
    title: str,
    headline: Sequence[str],
    facts: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    arrays: Mapping[str, Embeddable],
    limits: Sequence[str],
    gauge: Gauge | None = None,
    redacted: bool = False,
    badge: Badge | None = None,
    scripts: Sequence[str] = (),
) -> str:
    """The whole page as text.

    Args:
        title: of the page; the run's name belongs in it.
        headline: the verdict in plain words; the first sentence is set large.
        facts: (name, value) of what was run: records, models, recipe, dates, hashes.
        sections: in order.
        arrays: numbers for the scripts.
        limits: what the page does not show, one sentence each.
        gauge: where the main figure lies against its limit or scale.
        redacted: whether the page must say that raw features and ids were left out.
        badge: beside the title.
        scripts: names of files in assets/ that this page needs beside page.js and charts.js.
    """
    code = [asset(name) for name in ("page.js", "charts.js", *scripts)]
    return template(
        "page.html.j2",
        title=title,
        headline=list(headline),
        facts=list(facts),
        sections=list(sections),
        arrays=embedded(arrays),
        limits=list(limits),
        gauge=None if gauge is None else gauge_svg(gauge),
        redacted=redacted,
        badge=badge,
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
