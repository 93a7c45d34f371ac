"""The text of each token of a record, for display."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from leakscope.array_types import IntArray
from leakscope.data.tokens import LocalTokenizer, load_tokenizer
from leakscope.errors import LeakscopeError
from leakscope.types import Records


def token_pieces(records: Records, which: IntArray) -> list[list[str]]:
    """The tokens of each document at `which` as pieces of its text.

    Where the text does not give the same tokens again, as in a window of a document, a token is shown as the
    tokenizer names it; without the tokenizer, as its number.
    """
    tokenizer = _tokenizer(records)
    pieces_of = _numbers if tokenizer is None else _of_tokenizer(tokenizer)
    texts = None if records.text is None else records.text.documents
    rows = (records.features[record] for record in which.tolist())
    return [
        pieces_of("" if texts is None else texts[record], row[row >= 0].tolist())
        for record, row in zip(which.tolist(), map(np.asarray, rows), strict=True)
    ]


def _tokenizer(records: Records) -> LocalTokenizer | None:
    """The tokenizer that made the tokens; None where it is not in its folder any more."""
    if records.text is None:
        return None
    try:
        tokenizer = load_tokenizer(records.text.tokenizer.name)
    except LeakscopeError:
        return None
    return tokenizer if tokenizer.facts.digest == records.text.tokenizer.digest else None


def _numbers(_text: str, ids: Sequence[int]) -> list[str]:
    return [f"#{token} " for token in ids]


def _of_tokenizer(tokenizer: LocalTokenizer) -> Callable[[str, Sequence[int]], list[str]]:
    def pieces(text: str, ids: Sequence[int]) -> list[str]:
        encoding = tokenizer.inner.encode(text)
        if encoding.ids != list(ids):
            return [tokenizer.inner.id_to_token(token) or f"#{token} " for token in ids]
        return _cut(text, encoding.offsets)

    return pieces


def _cut(text: str, offsets: Sequence[tuple[int, int]]) -> list[str]:
    """The text between the ends of tokens: what lies between two tokens belongs to the second."""
    ends, shown = [], 0
    for _, end in offsets:
        shown = max(shown, end)
        ends.append(shown)
    pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [*pieces[:-1], pieces[-1] + text[shown:]] if pieces else []
