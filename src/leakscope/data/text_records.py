"""Records of text: documents are read, tokenized and cut to length, and near copies are searched for.

read_text("letters.jsonl", "models/base", text="body", group_columns=["author"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from leakscope.array_types import IntArray
from leakscope.data.columns import listed
from leakscope.data.near_copies import near_copies
from leakscope.data.text_sources import (
    RawDocuments,
    TextRoles,
    given_documents,
    read_documents,
)
from leakscope.data.tokens import LocalTokenizer, Long, Tokens, load_tokenizer, median_tokens, tokenized
from leakscope.errors import InputError
from leakscope.frames.text import Text, TextReading
from leakscope.types import DOCUMENT_CLASS, Records

DEFAULT_LENGTH = 256
DOCUMENT = "document"
"""The group of the windows of one document."""
_MANY_CUT = 0.5


def read_text(
    source: Path | str | Any,
    tokenizer: Path | str | LocalTokenizer,
    text: str | None = None,
    label: str | Any | None = None,
    id_column: str | Any | None = None,
    group_columns: Sequence[str] | Mapping[str, Any] = (),
    length: int = DEFAULT_LENGTH,
    long: Long = "cut",
) -> Records:
    """Reads documents as records, from a jsonl, csv or parquet file, a folder of text files, or a list.

    A document is a record. Of a document with more than `length` tokens, `long="cut"` keeps the first ones.
    With `long="windows"`, its windows are records, and the group "document" says which belong together.

    Args:
        source: the file or folder, or a list or Series of texts.
        tokenizer: folder of the tokenizer, usually that of the base model; nothing is downloaded.
        text: column of the documents; needed for csv and parquet, "text" by default for jsonl.
        label: column of classes; without one, a model predicts the next token. Of a folder "folder": the
            folder that a text lies in. Of a list: one value per text.
        id_column: column of unique ids; without one, ids are `row-0`, `row-1` and so on, of a folder the
            paths. Of a list: one value per text.
        group_columns: columns to report risk for; of a folder "folder". Of a list: name -> values.
        length: most tokens of a record, special ones included.
        long: "cut" or "windows".

    Raises:
        InputError: the file, a column, a document or the tokenizer cannot be used; says where and what to do.
    """
    reader = tokenizer if isinstance(tokenizer, LocalTokenizer) else load_tokenizer(tokenizer)
    if not isinstance(source, str | Path):
        groups = dict(group_columns) if isinstance(group_columns, Mapping) else {}
        return text_records(given_documents(source, label, id_column, groups), reader, length, long)
    path = Path(source).expanduser()
    names = (group_columns,) if isinstance(group_columns, str) else tuple(dict.fromkeys(group_columns))
    try:
        raw = read_documents(path, TextRoles(text, label, id_column, names))
        return text_records(raw, reader, length, long)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path") from error


def text_records(raw: RawDocuments, tokenizer: LocalTokenizer, length: int, long: Long) -> Records:
    """Records of documents that have been read."""
    tokens = tokenized(raw.documents, tokenizer, length, long)
    _refuse_short(tokens, raw, tokenizer)
    groups = {name: values[tokens.source] for name, values in raw.groups.items()}
    ids = raw.ids[tokens.source]
    if long == "windows":
        if DOCUMENT in groups:
            raise InputError(f"group {DOCUMENT!r} is taken by the windows of a document; rename the column")
        groups[DOCUMENT] = ids
        ids = _window_ids(ids, tokens.source)
    return Records(
        features=tokens.ids,
        labels=raw.labels[tokens.source],
        ids=ids,
        name=raw.name,
        groups=groups,
        class_names=raw.class_names,
        text=Text(
            tokens.texts,
            tokenizer.facts,
            near_copies=near_copies(tokens.texts),
            reading=_reading(tokens, length, long),
        ),
    )


def _refuse_short(tokens: Tokens, raw: RawDocuments, tokenizer: LocalTokenizer) -> None:
    """Raises for documents in which there is nothing to predict, or which the tokenizer cannot read."""
    least = 2 if raw.class_names == DOCUMENT_CLASS else 1 + tokenizer.n_special
    short = np.flatnonzero(tokens.lengths < least)
    if len(short):
        raise InputError(
            f"{len(short):,} documents have fewer than {least} tokens "
            f"({listed([str(i) for i in raw.ids[short]], 3)}), and a model has nothing to predict there; "
            "drop them"
        )


def _window_ids(ids: npt.NDArray[np.str_], source: IntArray) -> npt.NDArray[np.str_]:
    """ "letter-7 window 2"; of a document that is one window, "letter-8 window 1"."""
    first = np.searchsorted(source, source)
    numbers = (np.arange(len(source)) - first + 1).astype(np.str_)
    return np.strings.add(np.strings.add(ids, " window "), numbers)


def _reading(tokens: Tokens, length: int, long: Long) -> TextReading:
    n_long = int((tokens.lengths > length).sum())
    warnings = []
    if long == "cut" and n_long > _MANY_CUT * len(tokens.lengths):
        lost = 1 - float(np.minimum(tokens.lengths, length).sum() / tokens.lengths.sum())
        warnings.append(
            f"{lost:.0%} of the tokens are behind the cut, and what a model would remember of them is not "
            'measured; raise length, or set long = "windows"'
        )
    return TextReading(
        documents=len(tokens.lengths),
        records=len(tokens.ids),
        length=length,
        median_tokens=median_tokens(tokens.lengths),
        long=n_long,
        rule=long,
        warnings=tuple(warnings),
    )
