"""`leakscope defences`, and the page of the documentation that is made from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from leakscope.defences.registry import defence_classes, resolve_defence
from tests.cli.command import run_command

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "defences.md").read_text()


def test_every_defence_is_listed_with_what_it_changes() -> None:
    done = run_command("defences")
    assert done.exit_code == 0
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert [line[0] for line in lines] == ["defence", *defence_classes()]
    by_name = {line[0]: line[1:] for line in lines}
    assert by_name["hamp"] == [
        "recipe and outputs",
        "gamma=0.7, alpha=0.01",
        "Chen and Pattabiraman 2024",
    ]
    assert by_name["top_1"][:2] == ["outputs", ""]


def test_json_has_the_strengths_that_comparisons_try() -> None:
    rows = {row["name"]: row for row in json.loads(run_command("defences", "--json").out)}
    assert list(rows) == list(defence_classes())
    for row in rows.values():
        assert [resolve_defence(text).label for text in row["strengths"]] == row["strengths"]
    assert rows["mixup"]["accepts"] == {"alpha": "a number"}


def test_the_table_of_the_page_is_that_of_the_command() -> None:
    """To regenerate it, paste the output of `leakscope defences --markdown`."""
    assert run_command("defences", "--markdown").out.strip() in PAGE


def test_the_page_explains_every_defence() -> None:
    explained = re.findall(r"^\*\*`(\w+)`\*\*", PAGE, re.MULTILINE)
    assert explained == list(defence_classes())
