"""`[data]` of documents: what is read, what is printed, and which settings are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakscope.audits.config import parse_config, read_config
from leakscope.audits.population import column_facts, column_lines
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.types import Records
from tests.data.tokenizer_folders import word_tokenizer

TEXTS = ["the first letter", "a second letter that is longer", "the third one"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    word_tokenizer(tmp_path / "base", TEXTS)
    rows = [{"body": text, "author": f"a{i % 2}"} for i, text in enumerate(TEXTS)]
    (tmp_path / "letters.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "letters.csv").write_text("body,author\n" + "\n".join(f"{text},x" for text in TEXTS))
    (tmp_path / "texts").mkdir()
    for i, text in enumerate(TEXTS):
        (tmp_path / "texts" / f"{i}.txt").write_text(text)
    return tmp_path


def read(folder: Path, data: str, others: str = "") -> Records:
    path = folder / "audit.toml"
    path.write_text(f'[data]\n{data}\ntokenizer = "base"\n{others}')
    return read_config(path).records(None)


def test_the_settings_of_documents_reach_the_reader(folder: Path) -> None:
    records = read(
        folder, 'file = "letters.jsonl"\ntext = "body"\nlength = 4\nlong = "windows"\ngroups = ["author"]'
    )
    assert records.ids.tolist() == ["row-0 window 1", "row-1 window 1", "row-1 window 2", "row-2 window 1"]
    assert records.features.shape == (4, 4) and sorted(records.groups) == ["author", "document"]
    assert column_lines(records, Recipe(), None) == [
        "3 documents, 3 tokens in the middle, 33% in windows of 4: 4 records",
        "Check: the windows of a document are members independently of each other; to keep them together, "
        'set population.unit = "document"',
    ]


def test_windows_are_kept_together_where_the_document_is_the_unit(folder: Path) -> None:
    data = 'file = "letters.jsonl"\ntext = "body"\nlength = 4\nlong = "windows"'
    records = read(folder, data, '[population]\nunit = "document"')
    assert list(column_facts(records, Recipe(), None)) == ["documents"]
    assert records.groups["document"].tolist() == ["row-0", "row-1", "row-1", "row-2"]
    by_author = read(folder, 'file = "letters.jsonl"\ntext = "body"', '[population]\nunit = "author"')
    assert by_author.groups["author"].tolist() == ["a0", "a1", "a0"]


@pytest.mark.parametrize("data", ['file = "texts"', 'file = "letters.csv"\ntext = "body"'])
def test_folders_and_tables_of_documents_are_read(folder: Path, data: str) -> None:
    records = read(folder, data)
    assert records.text is not None and list(records.text.documents) == TEXTS
    assert records.features.shape == (3, 256) and records.is_language
    assert column_lines(records, Recipe(), None) == [
        "3 documents, 3 tokens in the middle, none longer than 256"
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            'file = "letters.csv"\nlabel = "author"\nlength = 8',
            "data.length, data.tokenizer would do nothing: only for documents; name",
        ),
        (
            'file = "texts"\nfeatures = ["a"]\nstandardise = true',
            "data.features, data.standardise would do nothing: only for tables",
        ),
        ('file = "texts"\ntask = "regression"', "documents have classes, or none"),
        ('file = "texts"\nlength = 1', "length=1 leaves no room"),
        ('file = "letters.jsonl"', "line 1 has no 'text', only: author, body"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(folder: Path, data: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(folder, data)


def test_a_tokenizer_is_needed_and_only_with_a_file(folder: Path) -> None:
    (folder / "a.toml").write_text('[data]\nfile = "texts"\n')
    with pytest.raises(
        InputError, match=r"need a tokenizer: name the folder of the base model in model.base, or"
    ):
        read_config(folder / "a.toml").records(None)
    with pytest.raises(InputError, match="text, length, long would do nothing: only for `file`"):
        parse_config('[data]\ndataset = "digits"\ntext = "a"\nlength = 3\nlong = "cut"', folder / "a.toml")
    with pytest.raises(InputError, match=r"data.long"):
        parse_config('[data]\nfile = "texts"\nlong = "slice"', folder / "a.toml")


@pytest.mark.parametrize("base", ["gpt2", "nowhere/base"])
def test_a_base_that_is_not_here_is_named_as_the_setting_that_was_written(
    folder: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="leakscope[text] is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (folder / "a.toml").write_text(f'[data]\nfile = "texts"\n[model]\nbase = "{base}"\n')
    with pytest.raises(InputError, match=f"model.base='{base}' is no folder here.*cannot be reached"):
        read_config(folder / "a.toml").records(None)


def test_a_readme_among_pictures_is_no_document(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    for name in ("cat/1.png", "dog/1.png"):
        (tmp_path / "pets" / name).parent.mkdir(parents=True)
        pillow.new("L", (4, 4)).save(tmp_path / "pets" / name)
    (tmp_path / "pets" / "README.md").write_text("pictures of pets")
    (tmp_path / "a.toml").write_text('[data]\nfile = "pets"\n')
    assert read_config(tmp_path / "a.toml").records(None).features.shape == (2, 1, 4, 4)
    word_tokenizer(tmp_path / "base", ["pictures of pets"])
    (tmp_path / "b.toml").write_text('[data]\nfile = "pets"\n[model]\nbase = "base"\n')
    assert read_config(tmp_path / "b.toml").records(None).ids.tolist() == ["README.md"]
