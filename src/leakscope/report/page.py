"""One report: verdict first, then sections; described once, rendered as HTML and as Markdown.

    page = Page(title, headline, facts, sections, limits)
    page.render()         report.html as text: the whole page in one file
    page.markdown()       report.md as text, for a pull request
    page.write(folder)    both, and the charts' PNG files in figures/; a redacted page is one file of its own

A page starts with title, badges, `headline`, an optional picture, `actions`, `facts` about the run and
`limits` of what it says; one `Section` after another follows, listed in a menu, and at the end the words that
need explaining. Style, scripts, plotly and numbers are embedded. A strict content security policy lets the
browser run our scripts, identified by their hashes, and load nothing else. Text from data is escaped by
jinja2 here, and set through `textContent` in scripts.

A page may name further scripts of assets/ in `scripts`. `window.leakscope` offers them:

    element(name, text, properties)  a new element with this text
    array(name)         promise of {values, shape}: a typed array, or a list of strings
    figure(id)          the figure of a `Chart`; change it, then
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
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, is_redacted, redaction_key
from leakscope.disk.second_process import Job
from leakscope.disk.storage import write_bytes
from leakscope.report.blocks import Body, Bullets, Definitions, body_html, body_markdown, plain
from leakscope.report.charts import Chart, Grid, rounded_charts
from leakscope.report.embed import Embeddable, embedded, packed
from leakscope.report.gauge import Gauge
from leakscope.report.levels import Levels
from leakscope.report.paper import margin_boxes
from leakscope.report.templates import template
from leakscope.report.words import words_in

PAGE, MARKDOWN = "report.html", "report.md"
REDACTED_PAGE = "report-redacted.html"
Tone = Literal["good", "bad", "plain"]
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Section:
    """One section of a page.

    Attributes:
        id: id of the element; unique on the page.
        title: heading, and entry in the menu.
        body: blocks; a string is a paragraph.
        note: text under the heading.
    """

    id: str
    title: str
    body: Body
    note: str = ""

    def html(self) -> Markup:
        """The body on the page."""
        return body_html(self.body)

    def rounded(self) -> Section:
        """The same with the numbers of its charts to a few digits."""
        return replace(self, body=rounded_charts(self.body))

    def markdown(self) -> str:
        """The section in report.md; empty where its body is."""
        body = body_markdown(self.body)
        parts = (f"## {plain(self.title)}", plain(self.note), body)
        return "\n\n".join(filter(None, parts)) if body else ""


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
        facts: (name, value) of what was run: records, models, recipe, seed.
        sections: the sections, in order.
        limits: what the page does not say, one sentence each.
        provenance: facts that differ between runs of the same recipe, such as dates; report.md omits them.
        arrays: numbers for the scripts.
        picture: where the main figures lie relative to their limits or levels; the first screen has one.
        actions: what to do, the most important first; the first screen lists them.
        date: when the run finished; empty where that is unknown. Printed pages have it on each sheet.
        redacted: whether single records were left out, which the page then says.
        badges: a word or two each, beside the title.
        scripts: names of the files in assets/ that this page needs in addition to page.js and charts.js.
    """

    title: str
    headline: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    limits: Sequence[str]
    provenance: Sequence[tuple[str, str]] = ()
    arrays: Mapping[str, Embeddable] = field(default_factory=dict)
    picture: Gauge | Levels | None = None
    actions: Sequence[str] = ()
    date: str = ""
    redacted: bool = False
    badges: Sequence[Badge] = ()
    scripts: Sequence[str] = ()

    def write(self, folder: Path) -> None:
        """Writes report.md, report.html and the charts' PNG files; redacted, the redacted page alone."""
        from leakscope.report.png import draw_png

        if self.redacted:
            redaction_key(folder)  # from now on, the run stays redacted
            write_bytes(folder / REDACTED_PAGE, self.render().encode("utf-8", "replace"))
            return
        pictures: dict[str, Job[bytes]] = {}
        for block in (block for section in self.sections for block in section.body):
            charts = block.charts if isinstance(block, Grid) else [block] if isinstance(block, Chart) else []
            drawings = [(block.png, charts)] if isinstance(block, Grid) else []
            for name, panels in [*drawings, *((chart.png, [chart]) for chart in charts)]:
                if name:
                    pictures[name] = Job(draw_png, panels)
        write_bytes(folder / MARKDOWN, self.markdown().encode("utf-8", "replace"))
        write_bytes(folder / PAGE, self.render().encode("utf-8", "replace"))
        for name, picture in pictures.items():
            write_bytes(folder / "figures" / f"{name}.png", picture.result())

    def markdown(self) -> str:
        """The report as Markdown: verdict, sections, what was run, limitations."""
        badges = [" · ".join(f"**{plain(badge.text)}**" for badge in self.badges)]
        closing = (
            Section("facts", "What was run", [Definitions(self.facts)]),
            Section("limits", "Limitations", [Bullets(self.limits)]),
        )
        sections = (section.markdown() for section in (*self.sections, *closing))
        parts = [f"# {plain(self.title)}", *badges, *map(plain, self.headline), *sections]
        return "\n\n".join(filter(None, parts)) + "\n"

    def render(self) -> str:
        """The whole page as text, without control characters, which a terminal would obey."""
        code = [asset(name) for name in ("page.js", "words.js", "charts.js", *self.scripts)]
        shown = [section.rounded() if self.redacted else section for section in self.sections]
        bodies = [section.html() for section in shown]
        notes = [section.note for section in self.sections]
        page = template(
            "page.html.j2",
            page=self,
            facts=[*self.facts, *self.provenance],
            arrays=embedded(self.arrays),
            sections=list(zip(self.sections, bodies, strict=True)),
            words=words_in(" ".join([*self.headline, *notes, *(body.striptags() for body in bodies)])),
            style=Markup(asset("page.css")) + margin_boxes(self.title, self.date),
            scripts=[Markup(source) for source in code],
            plotly=pack_plotly().result(),
            policy=_policy([*code, _plotly()]),
        )
        return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", page)


def pages_to_write(folder: Path, wanted: Disclosure = DEFAULT_DISCLOSURE) -> tuple[Disclosure, ...]:
    """What each page of a run may disclose, one entry per page: the private one first, then the redacted one.

    A page that exists is written again with every rerun. A run that began as a redacted one gets no private
    page, not even when it is resumed without the option.
    """
    stays_redacted = is_redacted(folder) or wanted.redacted is True
    is_private = wanted.redacted is False or wanted.with_membership or (folder / PAGE).exists()
    private = [replace(wanted, redacted=False)] if is_private or not stays_redacted else []
    return (*private, *([Disclosure(redacted=True)] if stays_redacted else []))


def page_path(folder: Path) -> Path:
    """The page of a run folder: the private one or, where only that exists, the redacted one."""
    redacted = folder / REDACTED_PAGE
    return redacted if redacted.exists() and not (folder / PAGE).exists() else folder / PAGE


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


@cache
def _sha256(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode("ascii")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source


@cache
def pack_plotly() -> Future[str]:
    """Starts to compress plotly to a third of its 4.8 MB on another core, once; a page waits for the text.

    The page decompresses it after the first paint.
    """
    thread = ThreadPoolExecutor(1)
    packing = thread.submit(lambda: packed(_plotly().encode()))
    thread.shutdown(wait=False)
    return packing
