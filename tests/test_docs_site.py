"""The documentation site: its nav fits whatever pages exist, and its checker notices broken links."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOOKS = ROOT / "docs" / "hooks"


@pytest.fixture(scope="module")
def hooks() -> Iterator[None]:
    sys.path.insert(0, str(HOOKS))
    yield
    sys.path.remove(str(HOOKS))


@pytest.fixture
def checked(hooks: None) -> Any:
    return import_module("check_site").problems


def test_a_site_whose_links_work_has_no_problems(tmp_path: Path, checked: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "look.css").write_text("")
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="look.css"><h2 id="x">x</h2><a href="#x">x</a>'
        '<a href="in/b.html#y">y</a>'
        '<a href="https://example.org">elsewhere</a>'
    )
    (tmp_path / "in" / "b.html").write_text(
        '<p id="y"></p><a href="../a.html#x">x</a><a href="../look.css">x</a>'
    )
    assert checked(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('<a href="b.html">b</a>', "links to b.html, which does not exist"),
        ('<a href="#nowhere">b</a>', "links to #nowhere, which has no such anchor"),
        ('<a href="a.html#nowhere">b</a>', "which has no such anchor"),
        ('<script src="https://cdn.example.org/x.js"></script>', "from elsewhere"),
        ('<script src="//cdn.example.org/x.js"></script>', "from elsewhere"),
        ('<link rel="stylesheet" href="https://fonts.example.org/x.css">', "from elsewhere"),
        ('<img src="missing.png">', "loads missing.png, which does not exist"),
    ],
)
def test_a_problem_of_a_site_is_named(content: str, problem: str, tmp_path: Path, checked: Any) -> None:
    (tmp_path / "a.html").write_text(content)
    (found,) = checked(tmp_path)
    assert found.startswith("a.html: ") and problem in found


def test_the_nav_leaves_out_what_is_missing_and_lists_what_is_not_listed(hooks: None) -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    site = import_module("site_hooks")
    nav = [{"One": ["index.md", "no_such_page.md", {"Two": ["nor_this.md"]}]}, {"A page": "start.md"}]
    one, page, more = site.on_config({"nav": nav})["nav"]
    assert one == {"One": ["index.md"]} and page == {"A page": "start.md"}
    assert "glossary.md" in more["More"] and "start.md" not in more["More"]


def test_links_out_of_the_pages_lead_to_files_of_the_site(hooks: None) -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    site = import_module("site_hooks")

    class Page:
        class file:  # noqa: N801
            src_uri = "tutorials/ci.md"

    links = "[r](../../README.md) [e](../../examples/forest.py) [d](../data.md#images) [x](../../examples/)"
    code = "\n```\n[n](../../README.md)\n```\n"
    moved = site.on_page_markdown(links + code, Page, None, None)
    assert moved == "[r](../overview.md) [e](../files/examples/forest.py) [d](../data.md#images) x" + code
