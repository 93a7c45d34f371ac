"""What a printed page has in its margins: title, date, page numbers."""

from __future__ import annotations

from markupsafe import Markup

_LONGEST = 90
_BOX = "font: 8.5pt system-ui, sans-serif; color: #55616d;"


def margin_boxes(title: str, date: str) -> Markup:
    """The @page rule: A browser that follows it prints these in place of its own title and address."""
    shown = title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"
    left, right = css_string(shown), css_string(date)
    return Markup(
        "@page { size: auto; margin: 19mm 15mm 17mm;"
        f" @top-left {{ content: {left}; {_BOX} width: 70% }}"
        f" @top-right {{ content: {right}; {_BOX} }}"
        f' @bottom-left {{ content: "leakscope"; {_BOX} }}'
        f' @bottom-right {{ content: "page " counter(page) " of " counter(pages); {_BOX} }} }}'
    )


def css_string(text: str) -> str:
    """Text as a CSS string that nothing in it can end, and that a style element can hold."""
    safe = (c if c.isascii() and (c.isalnum() or c == " ") else f"\\{ord(c):x} " for c in text)
    return '"' + "".join(safe) + '"'
