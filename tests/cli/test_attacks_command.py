"""`leakscope attacks`, and the page of the documentation that is made from it."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from leakscope.attacks.registry import attack_classes
from leakscope.testing import check_attack
from tests.cli.command import run_command

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "attacks.md").read_text()


def test_every_attack_is_listed_with_what_it_needs() -> None:
    done = run_command("attacks")
    assert done.exit_code == 0
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert [line[0] for line in lines] == ["attack", *attack_classes()]
    by_name = {line[0]: line[1:] for line in lines}
    assert by_name["rmia"] == [
        "online=true, gamma=2.0, offline_a=0.33, temperature=1.0, queries=one, signal=none",
        "log_odds",
        "scaled_residual",
        "log_odds",
        "IN and OUT; OUT with online=false",
        "no",
        "Zarifzadeh et al. 2024",
    ]
    assert by_name["lira"][5] == "yes; no with online=false"
    assert by_name["ez_mia"][1:4] == ["no", "no", "error_gap"]
    assert by_name["correctness"][2] == by_name["shokri"][2] == "no"  # not in a regression


def test_json_has_the_values_that_options_accept() -> None:
    rows = {row["name"]: row for row in json.loads(run_command("attacks", "--json").out)}
    assert list(rows) == list(attack_classes())
    options = {option["name"]: option for option in rows["lira"]["options"]}
    assert options["variance"]["accepts"] == "fixed | record | global"
    assert options["online"] == {"name": "online", "accepts": "true or false", "default": "true"}
    assert rows["shokri"]["in_memory"] and not rows["eb_lira"]["in_memory"]


def test_the_tables_of_the_page_are_those_of_the_command() -> None:
    """To regenerate them, paste the output of `leakscope attacks --markdown`."""
    for table in run_command("attacks", "--markdown").out.split("\n\n"):
        assert table.strip() in PAGE


def test_the_attack_of_the_page_works_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = PAGE.partition("## Write your own attack")[2]
    source = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert source is not None
    (tmp_path / "my_attack.py").write_text(source[1])
    monkeypatch.syspath_prepend(tmp_path)
    try:
        module = importlib.import_module("my_attack")
        check_attack(module.Surprise())
        check_attack(module.Surprise(share=0.2))
    finally:
        sys.modules.pop("my_attack", None)


def test_the_signal_of_the_page_works_as_printed() -> None:
    import torch

    section = PAGE.partition("## Write your own signal")[2]
    source = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert source is not None
    names: dict[str, object] = {}
    exec(source[1], names)
    function = names["true_share"]
    assert callable(function)
    shares = function(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64))
    assert shares.tolist() == [[0.25] * 3] * 2
