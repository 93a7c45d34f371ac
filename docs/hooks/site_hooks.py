"""What mkdocs needs to know about this repository: its nav, its pages outside docs/, and whether links work.

- A page of the nav that does not exist is left out; a page that the nav does not list goes under "More".
- README, ARCHITECTURE and the other pages of the root are part of the site, and so are the files of examples/
  and others that pages link to.
- commands.md, the reference of the command line, is written from the program.
- After the build, every link and anchor of every page must lead somewhere within the site, and no page may
  load anything from elsewhere.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from check_site import problems

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("commands.md",)
ROOT_PAGES = {"overview.md" if p.name == "README.md" else p.name: p.name for p in sorted(ROOT.glob("*.md"))}
"""Page of the site -> file in the root; mkdocs would take a README for the index."""
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Leaves out what does not exist, and lists what is not listed."""
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    known = {*ROOT_PAGES, *pages, *GENERATED}
    nav = _existing(config["nav"], known)
    unlisted = sorted(pages - set(_listed(nav)))
    config["nav"] = [*nav, *([{"More": unlisted}] if unlisted else [])]
    return config


def _existing(items: list[Any], known: set[str]) -> list[Any]:
    """The nav without pages that are not there, and without sections that are then empty."""
    left: list[Any] = []
    for item in items:
        if isinstance(item, str):
            left += [item] if item in known else []
            continue
        ((title, content),) = item.items()
        content = _existing(content, known) if isinstance(content, list) else content
        if content in known if isinstance(content, str) else content:
            left.append({title: content})
    return left


def _listed(items: list[Any]) -> Iterator[str]:
    for item in items:
        for content in [item] if isinstance(item, str) else item.values():
            yield from [content] if isinstance(content, str) else _listed(content)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of the root, the commands, and every file outside docs/ that a page links to."""
    for page, name in ROOT_PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "commands.md", content=commands_page()))
    for path in sorted({path for page in files.documentation_pages() for path in _linked_files(page)}):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def _linked_files(page: File) -> Iterator[str]:
    """Files of the repository, outside of docs/ and other than pages of the root, that a page links to."""
    for _, target, _ in _LINK.findall(page.content_string):
        path = _in_repository(target, page.src_uri)
        if path and (ROOT / path).is_file() and _place(path) == f"files/{path}":
            yield path


def _in_repository(target: str, page: str) -> str:
    """The path of a link's target in the repository; empty for an address elsewhere."""
    if "://" in target or target.startswith(("mailto:", "#")):
        return ""
    source = ROOT_PAGES.get(page) or (
        page.removeprefix("files/") if page.startswith("files/") else f"docs/{page}"
    )
    folder = posixpath.dirname(source)
    return posixpath.normpath(posixpath.join(folder, target))


def _place(path: str) -> str:
    """Where the site has a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    pages = {name: page for page, name in ROOT_PAGES.items()}
    return pages.get(path, f"files/{path}")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Points links that leave docs/ to where the site has the file; code is left as it is."""

    def moved(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = _in_repository(target, page.file.src_uri)
        if not path:
            return match[0]
        if (ROOT / path).is_dir():
            return str(text)  # a site has no page of a folder
        relative = posixpath.relpath(_place(path), posixpath.dirname(page.file.src_uri) or ".")
        return f"[{text}]({relative}{anchor or ''})"

    parts = _FENCED.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def commands_page() -> str:
    """Every command with its help and its options, from the program."""
    import typer

    from leakscope.cli.main import app

    parser: Any = typer.main.get_command(app)
    parts = [
        "# Commands\n\nThis page is generated from the program; `leakscope COMMAND --help` prints the same."
    ]
    parts += [text for name in sorted(parser.commands) for text in _command(parser.commands[name], name)]
    return "\n\n".join(parts) + "\n"


def _command(command: Any, name: str, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} leakscope {name}\n\n{_prose(command.help or '')}"
    rows = [row for parameter in command.params if (row := _row(parameter))]
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows])
    for inner in sorted(getattr(command, "commands", {})):
        yield from _command(command.commands[inner], f"{name} {inner}", level + 1)


def _row(parameter: Any) -> str:
    """One line of the table; empty for options that every command has or that are hidden."""
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return ""
    names = ", ".join(parameter.opts) if parameter.param_type_name == "option" else parameter.name.upper()
    return f"| `{names}` | {_prose(getattr(parameter, 'help', None) or '').replace('|', chr(92) + '|')} |"


def _prose(text: str) -> str:
    """Help as Markdown: no markup of rich, no accidental HTML."""
    plain = re.sub(
        r"\[/?(?:bold|dim|italic|cyan|green|red|yellow)\]", "", text.replace("\b", "").replace("\f", "")
    )
    return " ".join(plain.replace("<", "&lt;").split())


def on_post_build(config: Any) -> None:
    """Fails where a built page has a link that leads nowhere, or loads something from elsewhere."""
    found = problems(Path(config["site_dir"]))
    if found:
        raise PluginError("\n".join(found))
