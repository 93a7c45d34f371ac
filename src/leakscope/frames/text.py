"""Documents as they were given: their texts, what a tokenizer made of them, and the secrets planted in them.

Token ids are the features of the records; everything else that only text has is here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, IntArray

END = -1
"""Stands behind the last token of a document, in token ids of equal length."""


class Documents(Sequence[str]):
    """Texts of very different lengths, as UTF-8 in one array, which may be a memory map.

    Attributes:
        content: uint8 (bytes,), the texts one after the other.
        starts: int64 (documents + 1,), the byte at which each text starts; the last one is the length.
    """

    def __init__(self, content: npt.NDArray[np.uint8], starts: IntArray) -> None:
        self.content, self.starts = content, starts

    @classmethod
    def of(cls, texts: Iterable[str]) -> Documents:
        """The documents of some texts."""
        encoded = [text.encode() for text in texts]
        starts = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=starts[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.encoded(index).decode()

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def encoded(self, index: int) -> bytes:
        """One text as UTF-8."""
        at = range(len(self))[index]  # raises IndexError, counts negative ones from the end
        return self.content[self.starts[at] : self.starts[at + 1]].tobytes()

    def take(self, index: IntArray) -> Documents:
        """The documents at `index`, in that order."""
        lengths = np.diff(self.starts)[index]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        content = b"".join(self.encoded(i) for i in index.tolist())
        return Documents(np.frombuffer(content, np.uint8), starts)


@dataclass(frozen=True)
class Tokenizer:
    """The tokenizer behind the token ids.

    Attributes:
        name: its folder, or its name where it was made in the process.
        digest: sha256 of what decides how it cuts texts.
        vocabulary: number of token ids.
    """

    name: str
    digest: str
    vocabulary: int


@dataclass(frozen=True, eq=False)
class Secrets:
    """Secrets planted in documents, and what could have been planted instead.

    Attributes:
        records: int64 (secrets,), the record that holds each secret.
        values: the secrets as they stand in the text.
        alternatives: int32 (secrets, alternatives, length), token ids of the same document with another
            secret drawn from the same space, all different; END behind the end.
        spans: int64 (secrets, 2), first position of the secret's tokens and the one behind the last; the same
            in the document and its alternatives.
        space: number of equally likely secrets that were drawn from.
    """

    records: IntArray
    values: tuple[str, ...]
    alternatives: npt.NDArray[np.int32]
    spans: IntArray
    space: int

    def __len__(self) -> int:
        return len(self.records)

    def take(self, index: IntArray) -> Secrets | None:
        """The secrets of the records at `index`, which are numbered anew; None where there are none."""
        places = {int(record): place for place, record in enumerate(index.tolist())}
        which = [i for i, record in enumerate(self.records.tolist()) if record in places]
        if not which:
            return None
        return Secrets(
            records=np.array([places[int(self.records[i])] for i in which], dtype=np.int64),
            values=tuple(self.values[i] for i in which),
            alternatives=self.alternatives[which],
            spans=self.spans[which],
            space=self.space,
        )


@dataclass(frozen=True)
class TextReading:
    """How documents were read, for a user to check.

    Attributes:
        documents: number of documents that were read.
        records: number of records; more than documents where long ones were windowed.
        length: most tokens of a record.
        median_tokens: tokens of the document in the middle, before any was cut.
        long: number of documents of more tokens than a record holds.
        rule: what became of long documents.
        warnings: likely mistakes, one sentence each.
    """

    documents: int
    records: int
    length: int
    median_tokens: int
    long: int
    rule: str
    warnings: tuple[str, ...] = ()

    def summary(self) -> str:
        """ "2,000 documents, 112 tokens in the middle, 4% cut at 256"."""
        head = f"{self.documents:,} document{'s' if self.documents != 1 else ''}"
        middle = f"{self.median_tokens:,} token{'s' if self.median_tokens != 1 else ''} in the middle"
        if not self.long:
            return f"{head}, {middle}, none longer than {self.length:,}"
        share = self.long / self.documents
        shown = f"{share:.0%}" if share >= 0.01 else f"{self.long:,}"
        if self.rule == "windows":
            return f"{head}, {middle}, {shown} in windows of {self.length:,}: {self.records:,} records"
        return f"{head}, {middle}, {shown} cut at {self.length:,}"

    def lines(self) -> list[str]:
        """The summary, and a line for each likely mistake."""
        return [self.summary(), *(f"Check: {warning}" for warning in self.warnings)]


@dataclass(frozen=True, eq=False)
class Text:
    """What records of text have besides token ids.

    Attributes:
        documents: the texts whose tokens the features are: of a cut document, what is left of it.
        tokenizer: what made the token ids.
        near_copies: int64 (records,), equal numbers for records that are nearly the same text; None: not
            searched for.
        secrets: planted secrets; None: there are none.
        reading: how the documents were read; None: they were not read from a file.
    """

    documents: Documents
    tokenizer: Tokenizer
    near_copies: IntArray | None = None
    secrets: Secrets | None = None
    reading: TextReading | None = None

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def zlib_bytes(self) -> IntArray:
        """Bytes of each text compressed by zlib; int64 (records,)."""
        texts = (self.documents.encoded(i) for i in range(len(self.documents)))
        return np.array([len(zlib.compress(text)) for text in texts], dtype=np.int64)

    def content(self) -> list[AnyArray]:
        """Arrays that define the text, for the digest of the records."""
        tokenizer = np.array([self.tokenizer.digest], dtype=np.str_)
        arrays: list[AnyArray] = [self.documents.content, self.documents.starts, tokenizer]
        if self.secrets is not None:
            arrays += [self.secrets.alternatives, self.secrets.spans]
        return arrays

    def take(self, index: IntArray) -> Text:
        """The text of the records at `index`, in that order."""
        return replace(
            self,
            documents=self.documents.take(index),
            near_copies=None if self.near_copies is None else self.near_copies[index],
            secrets=None if self.secrets is None else self.secrets.take(index),
        )
