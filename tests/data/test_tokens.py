"""Token ids of documents: long ones are cut or windowed, special tokens stay, the cache changes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.data import tokens as tokens_module
from leakscope.data.tokens import load_tokenizer, tokenized
from leakscope.errors import InputError
from leakscope.frames.text import END, Documents
from tests.data.tokenizer_folders import word_tokenizer

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEXT = " ".join(WORDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return word_tokenizer(tmp_path_factory.mktemp("plain"), [TEXT])


@pytest.fixture(scope="module")
def special_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return word_tokenizer(tmp_path_factory.mktemp("special"), [TEXT], special=True)


def decoded(folder: Path, row: np.ndarray) -> list[str]:
    name_of = {
        at: word for word, at in json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"].items()
    }
    return [name_of[int(token)] for token in row if token != END]


def test_a_short_document_is_one_record_and_padded_behind_its_end(folder: Path) -> None:
    read = tokenized(Documents.of(["two one", "nine"]), load_tokenizer(folder), 4, "cut")
    assert read.ids.dtype == np.int32 and read.ids.shape == (2, 4)
    assert decoded(folder, read.ids[0]) == ["two", "one"] and (read.ids[0, 2:] == END).all()
    assert read.lengths.tolist() == [2, 1] and read.source.tolist() == [0, 1]


def test_cut_keeps_the_first_tokens_and_their_text(folder: Path) -> None:
    read = tokenized(Documents.of([TEXT]), load_tokenizer(folder), 4, "cut")
    assert decoded(folder, read.ids[0]) == WORDS[:4]
    assert list(read.texts) == ["zero one two three"] and read.lengths.tolist() == [10]


@given(n_words=st.integers(1, 40), length=st.integers(2, 12))
def test_windows_cover_a_document_once_and_none_is_much_shorter(
    folder: Path, n_words: int, length: int
) -> None:
    words = [WORDS[i % 10] for i in range(n_words)]
    text = "  ".join(words)
    read = tokenized(Documents.of([text]), load_tokenizer(folder), length, "windows")
    assert [word for row in read.ids for word in decoded(folder, row)] == words
    sizes = (read.ids != END).sum(axis=1)
    assert sizes.max() <= length and sizes.max() - sizes.min() <= 1
    assert len(read.ids) == -(-n_words // length)
    assert "".join(read.texts) == text


def test_special_tokens_are_around_every_record_and_count(special_folder: Path) -> None:
    tokenizer = load_tokenizer(special_folder)
    for long, parts in (("cut", [WORDS[:4]]), ("windows", [WORDS[:3], WORDS[3:6], WORDS[6:]])):
        read = tokenized(Documents.of([TEXT]), tokenizer, 6, long)
        assert [decoded(special_folder, row) for row in read.ids] == [["<s>", *p, "</s>"] for p in parts]
        assert read.lengths.tolist() == [12]
    with pytest.raises(InputError, match=r"length=3 leaves no room .* 2 special tokens; give a larger"):
        tokenized(Documents.of([TEXT]), tokenizer, 3, "cut")


def test_a_text_that_contains_special_tokens_gets_no_more_of_them(special_folder: Path) -> None:
    """Somebody writes "</s>" into a document: it is text of theirs, and the record has one end."""
    read = tokenized(Documents.of(["one </s> two"]), load_tokenizer(special_folder), 12, "cut")
    assert decoded(special_folder, read.ids[0])[-1] == "</s>"
    assert read.lengths.tolist() == [int((read.ids[0] != END).sum())]


def test_the_digest_is_that_of_the_content_not_of_the_folder(folder: Path, tmp_path: Path) -> None:
    same = word_tokenizer(tmp_path / "same", [TEXT])
    other = word_tokenizer(tmp_path / "other", [TEXT, "ten"])
    facts = [load_tokenizer(path).facts for path in (folder, same, other)]
    assert facts[0].digest == facts[1].digest != facts[2].digest
    assert [one.vocabulary for one in facts] == [13, 13, 14]


def test_padding_and_truncation_of_the_file_are_not_followed(folder: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    inner = Tokenizer.from_file(str(folder / "tokenizer.json"))
    inner.enable_truncation(2)
    inner.enable_padding(length=8)
    inner.save(str(tmp_path / "tokenizer.json"))
    read = tokenized(Documents.of([TEXT]), load_tokenizer(tmp_path), 12, "cut")
    assert decoded(folder, read.ids[0]) == WORDS
    assert load_tokenizer(tmp_path).facts.digest == load_tokenizer(folder).facts.digest


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "has no tokenizer.json"), ("{", "cannot be read"), ('{"model": 3}', "cannot be read")],
)
def test_a_folder_without_a_usable_tokenizer_is_refused(
    tmp_path: Path, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match=f"{said}.*save"):
        load_tokenizer(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        load_tokenizer(tmp_path / "nowhere")


def test_a_name_on_the_hub_is_looked_up_in_the_cache_first(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []

    def from_pretrained(_name: str, local_files_only: bool = False) -> object:
        calls.append(local_files_only)
        raise OSError("no network")

    fake = SimpleNamespace(AutoTokenizer=SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setitem(sys.modules, "transformers", fake)
    monkeypatch.setattr(tokens_module, "reaches_hub", lambda: False)
    with pytest.raises(InputError, match=r"'org/model' is no folder here, .* cannot be reached\); check"):
        load_tokenizer("org/model")
    assert calls == [True]
    monkeypatch.setattr(tokens_module, "reaches_hub", lambda: True)
    with pytest.raises(InputError, match=r"could not be fetched from the Hugging Face hub \(no network\)"):
        load_tokenizer("org/model")
    assert calls == [True, True, False]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEAKSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tokens_module, "_CACHED_BYTES", 0)
    return tmp_path / "cache" / "tokens"


def test_many_documents_are_tokenized_once(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, tokenizer = Documents.of([TEXT, "one two"]), load_tokenizer(folder)
    first = tokenized(documents, tokenizer, 4, "windows")
    assert isinstance(first.ids, np.memmap) and cache.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(tokens_module, "_fresh", lambda *_: pytest.fail("tokenized again"))
    again = tokenized(documents, load_tokenizer(folder), 4, "windows")
    assert (again.ids == first.ids).all() and list(again.texts) == list(first.texts)
    assert (again.source == first.source).all() and (again.lengths == first.lengths).all()


def test_other_documents_tokenizers_and_rules_have_their_own_arrays(
    cache: Path, folder: Path, special_folder: Path
) -> None:
    plain, special = load_tokenizer(folder), load_tokenizer(special_folder)
    tokenized(Documents.of([TEXT, "one"]), plain, 4, "cut")
    tokenized(Documents.of([TEXT + "one"]), plain, 4, "cut")  # the same bytes, divided otherwise
    tokenized(Documents.of([TEXT, "one"]), plain, 5, "cut")
    tokenized(Documents.of([TEXT, "one"]), plain, 4, "windows")
    tokenized(Documents.of([TEXT, "one"]), special, 4, "cut")
    assert len(list(cache.iterdir())) == 5


def test_a_damaged_cache_is_made_again(cache: Path, folder: Path) -> None:
    documents, tokenizer = Documents.of([TEXT, "one two"]), load_tokenizer(folder)
    first = np.array(tokenized(documents, tokenizer, 4, "cut").ids)
    (stored,) = cache.iterdir()
    (stored / "ids.npy").write_bytes((stored / "ids.npy").read_bytes()[:-4])
    assert (tokenized(documents, tokenizer, 4, "cut").ids == first).all()
