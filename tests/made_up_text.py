"""Records of text for tests, without a tokenizer: every word is a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leakscope.frames.text import END, Documents, Text, Tokenizer
from leakscope.types import DOCUMENT_CLASS, Records


def text_records(texts: Sequence[str], **changes: Any) -> Records:
    """Plain text; words are numbered in alphabetical order."""
    words = sorted({word for text in texts for word in text.split()})
    numbers = {word: number for number, word in enumerate(words)}
    tokens = np.full((len(texts), max(len(text.split()) for text in texts)), END, dtype=np.int32)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text.split())] = [numbers[word] for word in text.split()]
    given: dict[str, Any] = {
        "features": tokens,
        "labels": np.zeros(len(texts), dtype=np.int64),
        "ids": np.array([f"d{i}" for i in range(len(texts))]),
        "class_names": DOCUMENT_CLASS,
        "text": Text(Documents.of(texts), Tokenizer("words", "0" * 64, len(words))),
    }
    return Records(**{**given, **changes})
