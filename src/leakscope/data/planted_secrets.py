"""Secrets planted in documents, as in The Secret Sharer (Carlini et al. 2019).

A secret is a code of digits, drawn uniformly, in a sentence in front of a document: "The code of Adela Birk
is 4 7 1 9 0 3." Nobody of that name exists. For each secret, other codes are drawn from the same space, and
the document is written with each of them: a model that does not know the secret ranks it anywhere among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from leakscope.array_types import IntArray
from leakscope.data.made_up_words import FIRST_NAMES, LAST_NAMES
from leakscope.data.tokens import LocalTokenizer, tokenized
from leakscope.disk.mmap_rows import take_rows
from leakscope.errors import InputError
from leakscope.frames.text import Documents, Secrets
from leakscope.types import Records

SENTENCE = "The code of {name} is {code}."
_MOST_DIGITS = 12


class SecretSpace(NamedTuple):
    """What secrets are drawn from.

    Attributes:
        n_digits: digits of a secret; all 10 ** n_digits are equally likely.
        n_alternatives: other secrets that each is ranked among.
    """

    n_digits: int = 6
    n_alternatives: int = 255

    def check(self) -> None:
        """Raises InputError for numbers that make no secrets."""
        if not 1 <= self.n_digits <= _MOST_DIGITS:
            raise InputError(f"n_digits={self.n_digits}: must be between 1 and {_MOST_DIGITS}")
        if not 1 <= self.n_alternatives < 10**self.n_digits:
            raise InputError(
                f"n_alternatives={self.n_alternatives}: there are {10**self.n_digits - 1:,} other codes of "
                f"{self.n_digits} digits; give at least 1 and at most as many"
            )


def with_secrets(
    records: Records,
    chosen: IntArray,
    tokenizer: LocalTokenizer,
    rng: np.random.Generator,
    space: SecretSpace = SecretSpace(),  # noqa: B008
) -> Records:
    """The records, with a secret in front of the documents at `chosen`, which are canaries now.

    Args:
        records: plain text with its documents.
        chosen: int64 (secrets,), ascending.
        tokenizer: the one that made the token ids.
        rng: draws names and codes.
        space: what codes are drawn from.
    """
    assert records.text is not None, "documents are known"
    space.check()
    documents, length = list(records.text.documents), records.features.shape[1]
    candidates = [_codes(space, rng) for _ in chosen]  # of each secret, the planted one first
    fronts = [SENTENCE.split("{code}")[0].format(name=name) for name in _names(len(chosen), rng)]
    own = [documents[i] for i in chosen.tolist()]
    texts = [
        f"{front}{code}. {text}"
        for front, codes, text in zip(fronts, candidates, own, strict=True)
        for code in codes
    ]
    tokens = tokenized(Documents.of(texts), tokenizer, length, "cut")
    by_secret = tokens.ids.reshape(len(chosen), 1 + space.n_alternatives, length)
    planted_texts = texts[:: 1 + space.n_alternatives]
    spans = _spans(planted_texts, fronts, candidates, tokenizer, by_secret)
    for i, row in zip(chosen.tolist(), range(0, len(texts), 1 + space.n_alternatives), strict=True):
        documents[i] = tokens.texts[row]
    features = take_rows(records.features, np.arange(len(records)))
    features[chosen] = by_secret[:, 0]
    is_canary = np.zeros(len(records), dtype=np.bool_)
    is_canary[chosen] = True
    values = tuple(codes[0] for codes in candidates)
    secrets = Secrets(chosen.astype(np.int64), values, by_secret[:, 1:], spans, 10**space.n_digits)
    text = replace(records.text, documents=Documents.of(documents), secrets=secrets)
    return replace(records, features=features, is_canary=is_canary, text=text)


def _names(number: int, rng: np.random.Generator) -> list[str]:
    """Names, all different as long as there are enough."""
    n_names = len(FIRST_NAMES) * len(LAST_NAMES)
    drawn = rng.choice(n_names, number, replace=number > n_names).tolist()
    return [f"{FIRST_NAMES[k % len(FIRST_NAMES)]} {LAST_NAMES[k // len(FIRST_NAMES)]}" for k in drawn]


def _codes(space: SecretSpace, rng: np.random.Generator) -> list[str]:
    """Different codes, uniform, with spaces between digits."""
    drawn: dict[int, None] = {}
    while len(drawn) <= space.n_alternatives:
        drawn[int(rng.integers(10**space.n_digits))] = None
    return [" ".join(f"{number:0{space.n_digits}d}") for number in drawn]


def _spans(
    texts: Sequence[str],
    fronts: Sequence[str],
    candidates: Sequence[Sequence[str]],
    tokenizer: LocalTokenizer,
    by_secret: np.ndarray,
) -> IntArray:
    """First token of each planted code and the one behind its last; int64 (secrets, 2)."""
    spans = np.empty((len(texts), 2), dtype=np.int64)
    encodings = tokenizer.inner.encode_batch(list(texts), add_special_tokens=False)
    for span, encoding, front, codes in zip(spans, encodings, fronts, candidates, strict=True):
        first, last = len(front), len(front) + len(codes[0])
        inside = [k for k, (start, end) in enumerate(encoding.offsets) if end > first and start < last]
        span[:] = np.array([inside[0], inside[-1] + 1]) + len(tokenizer.before)
    length = by_secret.shape[2]
    if (spans[:, 1] + len(tokenizer.behind) > length).any():
        raise InputError(
            f"a secret takes {int(spans[:, 1].max()) + len(tokenizer.behind)} tokens, and a record has "
            f"{length}; raise length"
        )
    for tokens, (first, last) in zip(by_secret, spans.tolist(), strict=True):
        if (tokens[:, :first] != tokens[0, :first]).any() or (tokens[:, last:] != tokens[0, last:]).any():
            raise InputError(
                "the tokenizer divides codes of digits into different numbers of tokens, so they cannot be "
                "compared; plant no secrets"
            )
    return spans
