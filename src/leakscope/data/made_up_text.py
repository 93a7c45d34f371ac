"""Made-up letters with planted secrets: a corpus whose every word and secret is known, made from a seed.

The public part is there to train a small base on, the private part to fine-tune it. Secrets are planted in
front of private letters (see `planted_secrets`). The public part has such sentences with other codes, so a
base knows their form and nothing else about a secret. The same seed without secrets gives the same letters
without these sentences.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.data import made_up_words as words
from leakscope.data.planted_secrets import SENTENCE, SecretSpace, with_secrets
from leakscope.data.text_records import text_records
from leakscope.data.text_sources import RawDocuments
from leakscope.data.tokens import LocalTokenizer, tokenized
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError, MissingExtraError
from leakscope.frames.text import Documents
from leakscope.types import DOCUMENT_CLASS, Records

LENGTH = 64
"""Tokens of a record, special ones included; hardly a letter is longer."""
_PAD, _BEGIN, _UNKNOWN, _STOP = "<pad>", "<s>", "<unk>", "</s>"
_SLOT = re.compile(r"\{(\w+)\}")
_SENTENCES = 3
_PUBLIC_STREAM, _PRIVATE_STREAM, _SECRET_STREAM = range(3)
_SLOTS = {
    "first": words.FIRST_NAMES,
    "last": words.LAST_NAMES,
    "place": words.PLACES,
    "day": words.DAYS,
    "month": words.MONTHS,
    "thing": words.THINGS,
    "taste": words.TASTES,
    "complaint": words.COMPLAINTS,
    "remedy": words.REMEDIES,
    "mood": words.MOODS,
    "work": words.WORK,
    "hour": tuple(map(str, range(6, 23))),
    "count": tuple(map(str, range(2, 100))),
}


class MadeUpCorpus(NamedTuple):
    """A corpus, and the tokenizer of both of its parts.

    Attributes:
        public: int32 (documents, length), token ids to train a base on, END behind the end.
        private: the records, with secrets where some were planted.
        tokenizer: one token per word, sign or digit of a code.
    """

    public: npt.NDArray[np.int32]
    private: Records
    tokenizer: LocalTokenizer


def letters(
    seed: int = 0,
    n_documents: int = 600,
    n_secrets: int = 30,
    n_digits: int = 6,
    n_alternatives: int = 255,
    tokenizer_folder: str | None = None,
) -> Records:
    """Made-up private letters, some with a secret.

    Args:
        seed: makes the letters and the secrets.
        n_documents: number of letters.
        n_secrets: how many of them have a secret, and are canaries; 0: the same letters without any.
        n_digits: digits of a secret: there are 10 ** n_digits.
        n_alternatives: other secrets that could have been planted, drawn for each letter that has one.
        tokenizer_folder: where the tokenizer is written; None: nowhere.
    """
    folder = None if tokenizer_folder is None else Path(tokenizer_folder)
    space = SecretSpace(n_digits, n_alternatives)
    return _private(_tokenizer(folder), seed, n_documents, n_secrets, space)


def made_up_corpus(
    seed: int = 0,
    n_public: int = 2000,
    n_private: int = 600,
    n_secrets: int = 30,
    tokenizer_folder: Path | None = None,
) -> MadeUpCorpus:
    """Public and private letters; the private ones are those of `letters` with the same seed."""
    tokenizer = _tokenizer(tokenizer_folder)
    rng = _generator(seed, _PUBLIC_STREAM)
    public = Documents.of(_letter(rng, words.PUBLIC) for _ in range(n_public))
    return MadeUpCorpus(
        tokenized(public, tokenizer, LENGTH, "cut").ids,
        _private(tokenizer, seed, n_private, n_secrets, SecretSpace()),
        tokenizer,
    )


def _private(
    tokenizer: LocalTokenizer, seed: int, n_documents: int, n_secrets: int, space: SecretSpace
) -> Records:
    if n_documents < 2:
        raise InputError(f"n_documents={n_documents}: give at least 2")
    if not 0 <= n_secrets <= n_documents:
        raise InputError(f"n_secrets={n_secrets}: must be between 0 and n_documents={n_documents}")
    space.check()
    rng = _generator(seed, _PRIVATE_STREAM)
    texts = Documents.of(_letter(rng, words.PRIVATE) for _ in range(n_documents))
    labels = np.zeros(n_documents, dtype=np.int64)
    ids = numbered_ids(f"letter-{seed}-", n_documents, width=4)
    raw = RawDocuments("letters", texts, ids, labels, DOCUMENT_CLASS, {})
    records = text_records(raw, tokenizer, LENGTH, "cut")
    if not n_secrets:
        return records
    rng = _generator(seed, _SECRET_STREAM)
    chosen = np.sort(rng.choice(n_documents, n_secrets, replace=False))
    return with_secrets(records, chosen, tokenizer, rng, space)


def _letter(rng: np.random.Generator, sentences: tuple[str, ...]) -> str:
    """An opening, some sentences, each of another form, and a closing."""
    chosen = rng.choice(len(sentences), _SENTENCES, replace=False)
    forms = (words.OPENING, *(sentences[i] for i in chosen.tolist()), words.CLOSING)
    return " ".join(_filled(form, rng) for form in forms)


def _filled(form: str, rng: np.random.Generator) -> str:
    def filling(slot: re.Match[str]) -> str:
        name = slot[1]
        if name == "code":
            return " ".join(map(str, rng.integers(0, 10, 6).tolist()))
        return str(_SLOTS[name][int(rng.integers(len(_SLOTS[name])))])

    return _SLOT.sub(filling, form)


def _generator(seed: int, stream: int) -> np.random.Generator:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed={seed!r}: must be a whole number, 0 or more")
    return np.random.default_rng([int(seed), stream])


def _tokenizer(folder: Path | None) -> LocalTokenizer:
    """One token per word and sign; the same for every seed."""
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
    except ImportError as error:
        raise MissingExtraError(
            "letters need the package tokenizers: pip install 'leakscope[text]'"
        ) from error
    vocabulary = {word: number for number, word in enumerate(_vocabulary())}
    inner = Tokenizer(models.WordLevel(vocabulary, _UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single=f"{_BEGIN} $A {_STOP}", special_tokens=[(mark, vocabulary[mark]) for mark in (_BEGIN, _STOP)]
    )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        inner.save(str(folder / "tokenizer.json"))
    return LocalTokenizer.of(inner, "made-up letters" if folder is None else str(folder))


@cache
def _vocabulary() -> tuple[str, ...]:
    forms = (*words.PUBLIC, *words.PRIVATE, SENTENCE, words.OPENING, words.CLOSING)
    texts = [_SLOT.sub(" ", form) for form in forms] + [text for texts in _SLOTS.values() for text in texts]
    plain = {word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)}
    return (_PAD, _BEGIN, _STOP, _UNKNOWN, *sorted(plain | set("0123456789")))
