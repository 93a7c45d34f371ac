"""Made-up letters with planted secrets: a corpus whose every word and secret is known, made from a seed.

The public part is there to train a small base on, the private part to fine-tune it. A secret is a code of
digits, drawn uniformly and written into a private letter: "The code of Adela Birk is 4 7 1 9 0 3." The
public part has such sentences with other codes, so a base knows their form and nothing else about a secret.
The same seed without secrets gives the same letters without these sentences.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import IntArray
from leakscope.data import made_up_words as words
from leakscope.data.text_records import text_records
from leakscope.data.text_sources import RawDocuments
from leakscope.data.tokens import LocalTokenizer, tokenized
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError, MissingExtraError
from leakscope.frames.text import Documents, Secrets
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
    return _private(_tokenizer(folder), seed, n_documents, _Plan(n_secrets, n_digits, n_alternatives))


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
        _private(tokenizer, seed, n_private, _Plan(n_secrets)),
        tokenizer,
    )


class _Plan(NamedTuple):
    """Which secrets to plant."""

    number: int
    n_digits: int = 6
    n_alternatives: int = 255

    def check(self, n_documents: int) -> None:
        if not 0 <= self.number <= n_documents:
            raise InputError(f"n_secrets={self.number}: must be between 0 and n_documents={n_documents}")
        if not 1 <= self.n_digits <= 12:
            raise InputError(f"n_digits={self.n_digits}: must be between 1 and 12")
        if not 1 <= self.n_alternatives < 10**self.n_digits:
            raise InputError(
                f"n_alternatives={self.n_alternatives}: there are {10**self.n_digits - 1:,} other codes of "
                f"{self.n_digits} digits; give at least 1 and at most as many"
            )


class _Planted(NamedTuple):
    """A letter with its secret: the text before it, the codes, the planted one first, and the text behind."""

    before: str
    codes: list[str]
    behind: str


def _private(tokenizer: LocalTokenizer, seed: int, n_documents: int, plan: _Plan) -> Records:
    if n_documents < 2:
        raise InputError(f"n_documents={n_documents}: give at least 2")
    plan.check(n_documents)
    rng = _generator(seed, _PRIVATE_STREAM)
    texts = [_letter(rng, words.PRIVATE) for _ in range(n_documents)]
    rng = _generator(seed, _SECRET_STREAM)
    chosen = np.sort(rng.choice(n_documents, plan.number, replace=False))
    n_names = len(words.FIRST_NAMES) * len(words.LAST_NAMES)
    names = rng.choice(n_names, plan.number, replace=plan.number > n_names).tolist()
    planted = [
        _with_secret(texts[i], name, plan, rng) for i, name in zip(chosen.tolist(), names, strict=True)
    ]
    for i, one in zip(chosen.tolist(), planted, strict=True):
        texts[i] = f"{one.before}{one.codes[0]}{one.behind}"
    labels = np.zeros(n_documents, dtype=np.int64)
    ids = numbered_ids(f"letter-{seed}-", n_documents, width=4)
    raw = RawDocuments("letters", Documents.of(texts), ids, labels, DOCUMENT_CLASS, {})
    records = text_records(raw, tokenizer, LENGTH, "cut")
    return _with_secrets(records, chosen, planted, tokenizer, 10**plan.n_digits) if planted else records


def _with_secret(text: str, name: int, plan: _Plan, rng: np.random.Generator) -> _Planted:
    """The secret stands behind the opening, where no cut reaches it; each is that of another name."""
    codes = _codes(plan, rng)
    opening, _, rest = text.partition(",")
    first, last = divmod(name, len(words.LAST_NAMES))
    given = {"first": words.FIRST_NAMES[first], "last": words.LAST_NAMES[last], "code": "|"}
    before, _, behind = words.SECRET.format_map(given).partition("|")
    return _Planted(f"{opening}, {before}", codes, f"{behind}{rest}")


def _codes(plan: _Plan, rng: np.random.Generator) -> list[str]:
    """Different codes, uniform; digits are separated, so each is a token."""
    drawn: dict[int, None] = {}
    while len(drawn) <= plan.n_alternatives:
        drawn[int(rng.integers(10**plan.n_digits))] = None
    return [" ".join(f"{number:0{plan.n_digits}d}") for number in drawn]


def _with_secrets(
    records: Records, chosen: IntArray, planted: list[_Planted], tokenizer: LocalTokenizer, space: int
) -> Records:
    assert records.text is not None
    is_canary = np.zeros(len(records), dtype=np.bool_)
    is_canary[chosen] = True
    n_alternatives = len(planted[0].codes) - 1
    others = Documents.of(f"{one.before}{code}{one.behind}" for one in planted for code in one.codes[1:])
    alternatives = tokenized(others, tokenizer, LENGTH, "cut").ids
    before = tokenized(Documents.of(one.before for one in planted), tokenizer, LENGTH, "cut")
    starts = before.lengths - len(tokenizer.behind)
    n_digits = len(planted[0].codes[0].split())
    secrets = Secrets(
        records=chosen.astype(np.int64),
        values=tuple(one.codes[0] for one in planted),
        alternatives=alternatives.reshape(len(planted), n_alternatives, LENGTH),
        spans=np.stack([starts, starts + n_digits], axis=1),
        space=space,
    )
    return replace(records, is_canary=is_canary, text=replace(records.text, secrets=secrets))


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
    forms = (*words.PUBLIC, *words.PRIVATE, words.SECRET, words.OPENING, words.CLOSING)
    texts = [_SLOT.sub(" ", form) for form in forms] + [text for texts in _SLOTS.values() for text in texts]
    plain = {word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)}
    return (_PAD, _BEGIN, _STOP, _UNKNOWN, *sorted(plain | set("0123456789")))
