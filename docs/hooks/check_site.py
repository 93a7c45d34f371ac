"""Problems of a built site: links and anchors that lead nowhere, and files that pages load from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids of a page, its links, and what the browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes ids and addresses."""
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.loads.append(values.get("href", ""))
        elif tag in ("script", "img", "iframe", "source") and "src" in values:
            self.loads.append(values["src"])


def problems(site: Path) -> list[str]:
    """One line per problem; empty for a site whose links all work offline."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    return [
        f"{path.relative_to(site.resolve())}: {problem}"
        for path, page in sorted(pages.items())
        if path.name != "404.html"  # its links are absolute: it is shown at any address
        for problem in _of_page(path, page, pages)
    ]


def _of_page(path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for address in page.loads:
        if urlsplit(address).scheme not in ("", "data") or address.startswith("//"):
            yield f"loads {address} from elsewhere"
        elif not address.startswith("data:") and not (path.parent / unquote(urlsplit(address).path)).exists():
            yield f"loads {address}, which does not exist"
    for address in page.links:
        parts = urlsplit(address)
        if parts.scheme or address.startswith("//"):
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.exists():
            yield f"links to {address}, which does not exist"
        elif (
            parts.fragment
            and target in pages
            and unquote(parts.fragment) not in {*pages[target].ids, "__top"}
        ):
            yield f"links to {address}, which has no such anchor"
