"""`leakscope config`: the reference of config files, and their JSON schema."""

from __future__ import annotations

import json

import typer

app = typer.Typer(help="Print every setting of a config file, or the JSON schema for editors.",
                  no_args_is_help=True)  # fmt: skip


@app.command()
def reference() -> None:
    """Print every table and setting of a config file, as Markdown."""
    from leakscope.audits.config_page import config_page

    print(config_page(), end="")


@app.command()
def schema() -> None:
    """Print the JSON schema of config files, with which editors complete and check them."""
    from leakscope.audits.config_schema import config_schema

    print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
