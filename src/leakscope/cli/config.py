"""`leakscope config`: the reference of config files, and their JSON schema."""

from __future__ import annotations

import json

from leakscope.cli.app import App

app = App(help="Print every setting of a config file, or the JSON schema for editors.")


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
