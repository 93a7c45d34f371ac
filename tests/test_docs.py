"""The documentation agrees with the program: commands parse, links lead somewhere, names exist."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import leakscope
import leakscope.dp
import leakscope.testing
from leakscope.audits.config import read_config
from leakscope.cli.main import app
from leakscope.errors import ExitCode
from leakscope.evaluate.exposed_share import models_to_pass
from leakscope.evaluate.exposure import detectable_records
from tests.cli.command import run_command

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)")
FILE = re.compile(r"(?<![\w/.])(?:src/leakscope|tests|benchmarks|examples|docs)/[\w/.*-]*\w/?")
MODULE = re.compile(r"leakscope(?:\.\w+)+")


def blocks(text: str, language: str) -> list[str]:
    return [body for found, body in FENCE.findall(text) if found == language]


def commands(text: str) -> list[str]:
    """Every `leakscope ...` line of a code block without a language or in sh, and every such code span."""
    lines = [line.strip() for block in blocks(text, "") + blocks(text, "sh") for line in block.splitlines()]
    spans = [" ".join(span.split()) for span in SPAN.findall(FENCE.sub("", text))]
    starts = re.compile(r"^(?:[A-Z_]+=\S+ )*(leakscope [a-z-].*)$")
    return [match[1] for line in lines + spans if (match := starts.match(line))]


UsageError: Any = typer.BadParameter.__base__  # typer brings click with it, under different names


@cache
def whole_parser() -> Any:
    """All commands and options; building it takes longer than parsing a command."""
    return typer.main.get_command(app)


def parse(command: str) -> None:
    """Raises a UsageError for an unknown command or option; arguments may be missing, as in prose."""
    arguments = [word for word in shlex.split(command, comments=True)[1:] if word != "..."]
    parser = whole_parser()
    while hasattr(parser, "commands") and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        if name not in parser.commands:
            raise UsageError(f"no command {name!r}")
        parser = parser.commands[name]
    try:
        parser.make_context("leakscope", arguments)
    except typer.BadParameter as error:
        if type(error).__name__ != "MissingParameter":
            raise
    except typer.Exit:  # --help and --version
        pass


CASES = [(page, command) for page, text in TEXTS.items() for command in commands(text)]


def test_the_pages_name_many_commands() -> None:
    assert len(CASES) > 60
    assert len({command.split()[1] for _, command in CASES}) > 10


@pytest.mark.parametrize(("page", "command"), CASES)
def test_a_command_of_the_documentation_parses(page: str, command: str) -> None:
    parse(command)


@pytest.mark.parametrize("wrong", ["leakscope adit x.toml", "leakscope audit --model 3", "leakscope demo x"])
def test_a_wrong_command_does_not_parse(wrong: str) -> None:
    with pytest.raises(UsageError):
        parse(wrong)


@pytest.mark.parametrize("page", TEXTS)
def test_links_and_named_files_exist(page: str) -> None:
    text = TEXTS[page]
    targets = [target for target in LINK.findall(text) if "://" not in target]
    missing = [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()]
    missing += [name for name in FILE.findall(FENCE.sub("", text)) if not any(ROOT.glob(name.rstrip("/")))]
    assert missing == []


@pytest.mark.parametrize("page", TEXTS)
def test_modules_and_names_exist(page: str) -> None:
    for path in MODULE.findall(TEXTS[page]):
        resolve(path)
    for block in blocks(TEXTS[page], "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("leakscope"):
                for alias in node.names:
                    resolve(f"{node.module}.{alias.name}")


def test_the_reference_has_every_public_name() -> None:
    named = set(re.findall(r"^::: ([\w.]+)$", TEXTS["docs/reference.md"], re.MULTILINE))
    packages = (leakscope, leakscope.dp, leakscope.testing)
    assert all(set(package.__all__) == set(package._MODULES) for package in packages)
    public = {f"{module}.{name}" for package in packages for name, module in package._MODULES.items()}
    assert public - named == set()


def resolve(path: str) -> None:
    """Imports the longest module of a dotted path and looks up the next name in it."""
    parts = path.split(".")
    owner: Any = importlib.import_module("leakscope")
    for n, name in enumerate(parts[1:], 2):
        try:
            owner = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            assert hasattr(owner, name), path
            owner = getattr(owner, name)


TOML = [(page, block) for page, text in TEXTS.items() for block in blocks(text, "toml")]
CONFIGS = [(page, block) for page, block in TOML if "project" not in tomllib.loads(block)]


@pytest.mark.parametrize(("page", "block"), CONFIGS)
def test_a_config_of_the_documentation_is_accepted(page: str, block: str, tmp_path: Path) -> None:
    """A part of a config is completed with a dataset; the code it names is that of docs/attacks.md."""
    examples = blocks(TEXTS["docs/attacks.md"], "python")
    own_code = [code for code in examples if "(leakscope.Attack)" in code or "(logits, labels)" in code]
    (tmp_path / "my_attack.py").write_text("".join(own_code))
    whole = {"data", "predictions"} & set(tomllib.loads(block))
    path = tmp_path / "config.toml"
    path.write_text(block if whole else f'{block}\n[data]\ndataset = "digits"\n')
    assert read_config(path).settings.config_text == path.read_text()


def test_there_are_configs() -> None:
    assert len(CONFIGS) >= 6


def test_exit_codes_of_help_page_and_program_agree() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", TEXTS["docs/exit_codes.md"].split("## ")[0], re.MULTILINE)
    assert {int(code): text.replace("\\|", "|") for code, text in rows} == {c: c.meaning for c in ExitCode}
    helped = " ".join(run_command("--help").out.split())
    assert all(f"{code.value} {code.meaning}" in helped for code in ExitCode)


def test_the_table_of_detectable_records_is_computed() -> None:
    table = TEXTS["docs/exit_codes.md"].split("## How many models")[1].split("## ")[0]
    rows = re.findall(r"^\| (\d+) \| \S+ \| (\S+) \| (\S+) \|$", table, re.MULTILINE)
    assert len(rows) > 5
    for models, *fewest in rows:
        for shown, n_records in zip(fewest, (1_000, 100_000), strict=True):
            computed = detectable_records(int(models), n_records).fewest
            assert shown == (f"{computed:,}" if computed <= n_records else "none")


def test_the_table_of_models_that_a_limit_takes_is_computed() -> None:
    table = TEXTS["docs/exit_codes.md"].split("## How a limit on exposed records passes")[1]
    rows = re.findall(r"^\| (\d+)% \| (\d+) \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    assert len(rows) == 5
    for percent, *shown in rows:
        computed = [models_to_pass(int(percent) / 100, n_records) for n_records in (300, 1_000, 100_000)]
        assert [int(models) for models in shown] == computed
