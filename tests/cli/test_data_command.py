"""`leakscope data` as a user meets it: exit through an error, lines on stdout, JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from leakscope.cli.data import app
from leakscope.data import catalogue, registry
from leakscope.data.catalogue import Dataset, PublishedFile
from leakscope.errors import DataMissingError, InputError

CONTENT = b"published"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalogue of one built-in dataset and two of files, of which none is present."""
    built_in = registry.dataset("gaussian")
    files = (PublishedFile("a.bin", 9, SHA256), PublishedFile("b.txt", 9, SHA256, required=False))
    toy = replace(built_in, name="toy", folder="toy", files=files, mirrors=("http://127.0.0.1:9/",))
    entries: tuple[Dataset, ...] = (built_in, toy, replace(toy, name="other", folder="other"))
    monkeypatch.setattr(catalogue, "DATASETS", entries)
    monkeypatch.setattr(registry, "DATASETS", entries)
    monkeypatch.setenv("LEAKSCOPE_DATA", str(tmp_path))
    return tmp_path


def put(root: Path, name: str, content: bytes = CONTENT) -> None:
    (root / "toy").mkdir(exist_ok=True)
    (root / "toy" / name).write_bytes(content)


def test_list_says_what_is_there(root: Path) -> None:
    put(root, "b.txt")
    rows = [line.split("\t") for line in run("list").stdout.splitlines()]
    assert rows[0] == ["name", "records", "features", "classes", "source", "present"]
    assert [(row[0], row[-1]) for row in rows[1:]] == [
        ("gaussian", "built in"),
        ("toy", "1 of 2 files"),
        ("other", "no"),
    ]
    put(root, "a.bin")
    assert run("list").stdout.splitlines()[2].endswith("\tyes")


def test_list_quiet_and_json(root: Path) -> None:
    assert run("list", "--quiet").stdout.split() == ["gaussian", "toy", "other"]
    described = json.loads(run("list", "--json").stdout)
    assert [entry["present"] for entry in described] == [True, False, False]
    assert described[0]["folder"] is None and described[1]["folder"] == str(root / "toy")


def test_check_without_names_passes_over_what_is_absent(root: Path) -> None:
    put(root, "a.bin")
    result = run("check")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "ok        toy: a.bin",
        "missing   toy: b.txt  (optional)",
        f"not in {root}: other",
    ]


def test_check_of_a_named_dataset_that_is_missing(root: Path) -> None:
    result = run("check", "toy")
    assert isinstance(result.exception, DataMissingError)
    assert str(result.exception).startswith(f"toy/a.bin missing from {root}; run `leakscope data fetch toy`")
    assert "missing   toy: a.bin" in result.stdout


def test_check_of_a_file_that_differs(root: Path) -> None:
    put(root, "a.bin", b"spoiled")
    for arguments in (["check"], ["check", "toy"], ["check", "--quiet"]):
        result = run(*arguments)
        assert isinstance(result.exception, InputError) and result.exception.exit_code == 2
        assert f"{root / 'toy' / 'a.bin'} not as published" in str(result.exception)
        assert ("differs   toy: a.bin" in result.stdout) == ("--quiet" not in arguments)


def test_check_json_is_whole_even_when_it_fails(root: Path) -> None:
    put(root, "a.bin", b"spoiled")
    result = run("check", "--json")
    summary = json.loads(result.stdout)
    assert [(file["file"], file["state"]) for file in summary["files"]] == [
        ("a.bin", "differs"),
        ("b.txt", "missing"),
    ]
    assert summary["absent"] == ["other"]
    assert isinstance(result.exception, InputError)


def test_check_of_a_built_in_dataset(root: Path) -> None:
    assert run("check", "gaussian").stdout == "built in  gaussian needs no files\n"


@pytest.mark.parametrize("command", ["check", "fetch"])
def test_unknown_names(root: Path, command: str) -> None:
    result = run(command, "tox")
    assert isinstance(result.exception, InputError)
    assert "unknown dataset 'tox'; did you mean 'toy'?" in str(result.exception)


def test_fetch_keeps_what_is_right(root: Path) -> None:
    put(root, "a.bin")
    put(root, "b.txt")
    result = run("fetch", "toy", "gaussian")
    assert result.stdout.splitlines() == [
        f"present  {root / 'toy' / 'a.bin'}",
        f"present  {root / 'toy' / 'b.txt'}",
        "gaussian is built in; there is nothing to fetch",
    ]
    kept = json.loads(run("fetch", "toy", "--json").stdout)
    assert [file["downloaded"] for file in kept["files"]] == [False, False]
    assert run("fetch", "toy", "--quiet").stdout == ""


def test_fetch_without_a_network(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    result = run("fetch", "toy")
    assert isinstance(result.exception, DataMissingError)
    assert f"put it in {root / 'toy'}" in str(result.exception)


def test_the_folder_can_be_given(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    result = run("check", "--data-dir", str(elsewhere))
    assert result.stdout == f"not in {elsewhere}: toy, other\n"
