"""`leakscope init` for documents: what it writes runs, or it says in one line why not."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from leakscope.audits.config import read_config
from leakscope.audits.config_schema import config_schema
from tests.cli.command import run_command
from tests.cli.test_mistakes import check_refused
from tests.data.tokenizer_folders import word_tokenizer
from tests.train.adapters.bases import saved_gpt2

N = 60
WORDS = [f"word{i}" for i in range(40)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, letters as jsonl, and the same letters as files."""
    folder, rng = tmp_path_factory.mktemp("documents"), np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=12)) for _ in range(N)]
    saved_gpt2(folder / "base")
    word_tokenizer(folder / "base", texts)
    rows = [
        {"letter_id": i, "subject": f"s{i % 7}", "author": f"a{i // 3}", "words": t}
        for i, t in enumerate(texts)
    ]
    (folder / "letters.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "texts").mkdir()
    for i, text in enumerate(texts):
        (folder / "texts" / f"{i}.txt").write_text(text)
    return folder


def written(made: Path, out: Path, file: str, *options: str) -> dict[str, Any]:
    done = run_command("init", made / file, "--base", str(made / "base"), "--out", out, "--yes", *options)
    assert done.exit_code == 0, done
    content = tomllib.loads(out.read_text())
    jsonschema.validate(content, config_schema())
    assert len(read_config(out).records(None)) == N
    return content


def test_fields_of_a_jsonl_file_are_guessed(made: Path, tmp_path: Path) -> None:
    content = written(made, tmp_path / "my.toml", "letters.jsonl")
    assert content["data"]["text"] == "words" and content["data"]["id"] == "letter_id"
    assert content["data"]["length"] <= 256
    assert content["population"]["unit"] == "author"
    assert (tmp_path / content["model"]["base"]).resolve() == (made / "base").resolve()


def test_options_come_before_guesses(made: Path, tmp_path: Path) -> None:
    options = ("--text", "words", "--label", "subject", "--unit", "author")
    content = written(made, tmp_path / "my.toml", "letters.jsonl", *options)
    assert (
        content["data"]["label"] == "subject"
        and read_config(tmp_path / "my.toml").records(None).n_classes == 7
    )


def test_a_folder_of_texts(made: Path, tmp_path: Path) -> None:
    content = written(made, tmp_path / "my.toml", "texts")
    assert set(content["data"]) == {"file", "length"}


@pytest.mark.slow
def test_what_was_written_runs(made: Path, tmp_path: Path) -> None:
    written(made, tmp_path / "my.toml", "letters.jsonl")
    done = run_command("audit", tmp_path / "my.toml", "--out", tmp_path / "run", "--models", "8", "--quiet")
    assert (tmp_path / "run" / "report.html").exists(), done


@pytest.mark.parametrize(
    ("file", "content", "options", "named"),
    [
        ("a.jsonl", '{"text": "a b"}', (), ("holds documents", "--base")),
        ("a.jsonl", '{"text": "a b"}', ("--base", "BASE", "--net", "mlp"), ("not for documents", "--base")),
        ("a.jsonl", "", ("--base", "BASE"), ("has no documents",)),
        ("a.jsonl", "[1]\n", ("--base", "BASE"), ("line 1 is a list",)),
        ("a.jsonl", '{"n": 1}', ("--base", "BASE"), ("no field holds texts", "--text")),
        ("a.jsonl", '{"text": "a b"}', ("--base", "BASE", "--text", "body"), ("line 1 has no 'body'",)),
        ("a.csv", "x,label\n1,0\n2,1\n", ("--base", "BASE"), ("--base is for documents",)),
    ],
)
def test_what_cannot_be_audited_is_one_line_and_writes_nothing(
    made: Path, tmp_path: Path, file: str, content: str, options: tuple[str, ...], named: tuple[str, ...]
) -> None:
    (tmp_path / file).write_text(content)
    given = [str(made / "base") if option == "BASE" else option for option in options]
    check_refused(tmp_path, ("init", tmp_path / file, "--out", tmp_path / "my.toml", *given), *named)


def test_pictures_with_a_read_me_are_no_documents(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (8, 8), (40 * i, 0, 0)).save(tmp_path / "pets" / name / f"{i}.png")
    (tmp_path / "pets" / "README.md").write_text("Pictures of pets.")
    done = run_command("init", tmp_path / "pets", "--out", tmp_path / "my.toml", "--yes")
    assert done.exit_code == 0, done
    assert tomllib.loads((tmp_path / "my.toml").read_text())["model"] == {"net": "cnn"}
