"""docs/config.md: the reference of config files, as `leakscope config reference` prints it."""

from __future__ import annotations

from leakscope.audits.config_reference import Setting, Table, config_tables, type_text
from leakscope.disk.toml_text import toml_value

_HEAD = """\
# Config files

`leakscope audit my.toml` reads a TOML file. [`leakscope init`](init.md) writes one for your records. This
page lists every table and setting; `leakscope config reference` prints it, and `leakscope config schema`
prints the [JSON schema](config.schema.json) with which editors complete and check config files.

- A file has either `[data]` or `[predictions]`. Every other table is optional.
- A relative path starts at the folder of the config file.
- An unknown setting is an error, and so is one that would have no effect. One message names all problems of
  a file.
- A setting without a default has no effect unless you set it.

| table | what it is for |
|---|---|
"""


def config_page() -> str:
    """The page, as Markdown."""
    tables = config_tables()
    rows = [f"| [`[{table.name}]`](#{_anchor(table)}) | {_cell(table.summary)} |" for table in tables]
    return _HEAD + "\n".join(rows) + "\n" + "".join(map(_section, tables))


def _anchor(table: Table) -> str:
    return table.name.replace(".", "")


def _section(table: Table) -> str:
    lines = [
        f"\n## {table.name}",
        f"{table.summary}\n",
        "| setting | type | default | meaning |",
        "|---|---|---|---|",
        *map(_row, table.settings),
        "\n```toml",
        f"{table.example}```\n",
    ]
    return "\n".join(lines)


def _row(setting: Setting) -> str:
    default = "required" if setting.is_required else ""
    if setting.default is not None:
        default = f"`{toml_value(setting.default)}`"
    cells = (f"`{setting.name}`", type_text(setting.hint), default, _cell(setting.meaning))
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """A text in which no character ends a cell of a table."""
    return text.replace("|", "\\|")
