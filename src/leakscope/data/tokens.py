"""Documents to token ids: a tokenizer from a local folder, and the rule for long documents.

A record holds at most `length` tokens. Of a longer document, `long = "cut"` keeps the first ones, and
`long = "windows"` makes several records of nearly equal length, which do not overlap. Special tokens that the
tokenizer puts around a text (such as BOS) are around every record, and count.

Many documents are tokenized once: the arrays lie in the cache folder under a name made of the documents, the
tokenizer and the rule, and are memory-mapped from there.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import IntArray
from leakscope.data.hub import hub_address, reaches_hub
from leakscope.disk.cache import cache_folder
from leakscope.disk.npy import ArrayFileError, map_array
from leakscope.disk.scratch import blocks
from leakscope.disk.storage import atomic_folder, create_folder, write_array
from leakscope.errors import InputError, MissingExtraError, first_line
from leakscope.frames.text import END, Documents, Tokenizer

if TYPE_CHECKING:
    import tokenizers

_log = logging.getLogger(__name__)

Long = Literal["cut", "windows"]
LONG_RULES = ("cut", "windows")
_FORM = 1  # of the arrays in the cache
_CACHED_BYTES = 1 << 24  # documents of fewer bytes are tokenized within seconds
_DOCUMENTS_AT_ONCE = 1000
_PROBE = "a"
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


class Tokens(NamedTuple):
    """Documents as token ids.

    Attributes:
        ids: int32 (records, length), END behind the end.
        source: int64 (records,), the document of each record, ascending.
        lengths: int64 (documents,), tokens of each document before any was cut, special ones included.
        texts: the text of each record.
    """

    ids: npt.NDArray[np.int32]
    source: IntArray
    lengths: IntArray
    texts: Documents


@dataclass(frozen=True, eq=False)
class LocalTokenizer:
    """A tokenizer, and the special tokens that it puts around a text.

    Attributes:
        inner: of the package tokenizers; neither pads nor cuts.
        facts: its name and digest.
        before: ids in front of a text.
        behind: ids behind it.
    """

    inner: tokenizers.Tokenizer
    facts: Tokenizer
    before: tuple[int, ...]
    behind: tuple[int, ...]

    @classmethod
    def of(cls, inner: Any, name: str) -> LocalTokenizer:
        """A tokenizer of the package tokenizers."""
        inner.no_padding()
        inner.no_truncation()
        bare = inner.encode(_PROBE, add_special_tokens=False).ids
        whole = inner.encode(_PROBE).ids
        at = next((k for k in range(len(whole)) if whole[k : k + len(bare)] == bare), 0)
        vocabulary = 1 + max(inner.get_vocab(with_added_tokens=True).values(), default=-1)
        digest = hashlib.sha256(inner.to_str().encode()).hexdigest()
        facts = Tokenizer(name, digest, vocabulary)
        return cls(inner, facts, tuple(whole[:at]), tuple(whole[at + len(bare) :]))

    @property
    def n_special(self) -> int:
        """Number of special tokens around a text."""
        return len(self.before) + len(self.behind)


def load_tokenizer(source: Path | str, setting: str = "tokenizer") -> LocalTokenizer:
    """The tokenizer of a folder, such as that of a saved model, or of a model on the Hugging Face hub.

    Args:
        source: the folder; or a name on the hub, looked up in the local cache first.
        setting: what messages call it.

    Raises:
        InputError: there is none, or it is damaged.
        MissingExtraError: the package that reads it is not installed.
    """
    folder = Path(source).expanduser()
    try:
        if folder.is_dir():
            return LocalTokenizer.of(_of_folder(folder, setting), str(folder))
        return LocalTokenizer.of(_of_hub(str(source), setting), str(source))
    except ImportError as error:
        raise MissingExtraError(
            f"text needs the package {error.name}: pip install 'leakscope[text]'"
        ) from error
    except (InputError, MemoryError):
        raise
    except Exception as error:  # the packages raise plain exceptions for whatever is wrong with a file
        raise InputError(
            f"{setting}={str(source)!r} cannot be read ({first_line(error)}); save it again with "
            "tokenizer.save_pretrained"
        ) from error


def _of_folder(folder: Path, setting: str) -> Any:
    import tokenizers

    if (folder / "tokenizer.json").is_file():
        return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    if not any(folder.glob("*token*")) and not any(folder.glob("vocab*")):
        raise InputError(
            f"{setting}={str(folder)!r} has no tokenizer.json; save one there with tokenizer.save_pretrained"
        )
    from transformers import AutoTokenizer

    return _fast(AutoTokenizer.from_pretrained(str(folder), local_files_only=True), str(folder), setting)


def _of_hub(name: str, setting: str) -> Any:
    if not _HUB_NAME.fullmatch(name):
        raise InputError(f"{setting}={name!r} is not a folder; give that of a model with its tokenizer.json")
    from transformers import AutoTokenizer

    try:
        return _fast(AutoTokenizer.from_pretrained(name, local_files_only=True), name, setting)
    except (OSError, ValueError):  # not in the cache
        problem = f"{hub_address()} cannot be reached"
    if reaches_hub():
        try:
            return _fast(AutoTokenizer.from_pretrained(name), name, setting)
        except (OSError, ValueError) as error:
            problem = first_line(error)
    raise InputError(
        f"{setting}={name!r} is no folder here, and could not be fetched from the Hugging Face hub "
        f"({problem}); check the name and the network, or give the folder of a saved model"
    )


def _fast(read: Any, name: str, setting: str) -> Any:
    if not getattr(read, "is_fast", False):
        raise InputError(
            f"{setting}={name!r} has no fast form; convert it to a tokenizer.json with transformers"
        )
    return read.backend_tokenizer


def tokenized(documents: Documents, tokenizer: LocalTokenizer, length: int, long: Long) -> Tokens:
    """The documents as token ids; many are read from the cache where they were tokenized before."""
    if long not in LONG_RULES:
        raise InputError(f"long={long!r} must be one of {', '.join(LONG_RULES)}")
    if length <= tokenizer.n_special + 1:
        raise InputError(
            f"length={length} leaves no room for a text of two tokens beside {tokenizer.n_special} special "
            "tokens; give a larger one, like 256"
        )
    if documents.content.nbytes < _CACHED_BYTES:
        return _fresh(documents, tokenizer, length, long)
    folder = cache_folder() / "tokens" / _key(documents, tokenizer, length, long)
    stored = _stored(folder)
    if stored is None:
        _store(folder, _fresh(documents, tokenizer, length, long))
        stored = _stored(folder)
    assert stored is not None, "it was just written"
    return stored


def _fresh(documents: Documents, tokenizer: LocalTokenizer, length: int, long: Long) -> Tokens:
    rows, source, lengths, texts = list[list[int]](), list[int](), list[int](), list[str]()
    room = length - tokenizer.n_special
    for at, ids, ends in _encoded(documents, tokenizer):
        lengths.append(len(ids) + tokenizer.n_special)
        text = documents[at]
        for first, last in _parts(len(ids), room, long):
            rows.append([*tokenizer.before, *ids[first:last], *tokenizer.behind])
            source.append(at)
            start = ends[first - 1] if first else 0
            texts.append(text[start:] if last == len(ids) else text[start : ends[last - 1]])
    tokens = np.full((len(rows), length), END, dtype=np.int32)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    return Tokens(tokens, np.array(source, np.int64), np.array(lengths, np.int64), Documents.of(texts))


def _encoded(documents: Documents, tokenizer: LocalTokenizer) -> Iterator[tuple[int, list[int], list[int]]]:
    """Each document's number, its token ids without special ones, and the character behind each token."""
    for some in blocks(len(documents), _DOCUMENTS_AT_ONCE):
        encodings = tokenizer.inner.encode_batch(documents[some], add_special_tokens=False)
        for at, encoding in enumerate(encodings, some.start):
            yield at, encoding.ids, [end for _, end in encoding.offsets]


def _parts(n_tokens: int, room: int, long: Long) -> list[tuple[int, int]]:
    """First token of each record of a document, and the one behind its last."""
    if n_tokens <= room or long == "cut":
        return [(0, min(n_tokens, room))]
    n_windows = -(-n_tokens // room)
    cuts = [n_tokens * k // n_windows for k in range(n_windows + 1)]  # sizes differ by one at most
    return list(pairwise(cuts))


def _key(documents: Documents, tokenizer: LocalTokenizer, length: int, long: Long) -> str:
    sha = hashlib.sha256(f"{_FORM} {tokenizer.facts.digest} {length} {long} ".encode())
    sha.update(np.ascontiguousarray(documents.starts).data)
    sha.update(np.ascontiguousarray(documents.content).data)
    return sha.hexdigest()[:40]


def _store(folder: Path, tokens: Tokens) -> None:
    """Written as a whole: another process that tokenizes the same may come first."""
    create_folder(folder.parent)
    arrays = tokens._asdict() | {"texts": tokens.texts.content, "starts": tokens.texts.starts}
    try:
        with atomic_folder(folder) as temporary:
            for name, array in arrays.items():
                write_array(temporary / f"{name}.npy", array)
    except Exception:
        if _stored(folder) is None:
            raise


def _stored(folder: Path) -> Tokens | None:
    """The arrays of the cache; None where they are missing or damaged, which is removed."""
    if not folder.is_dir():
        return None
    try:
        arrays = {name: map_array(folder / f"{name}.npy") for name in (*Tokens._fields, "starts")}
    except ArrayFileError as error:
        _log.warning("%s is damaged (%s); the documents are tokenized again", folder, error)
        _remove(folder)
        return None
    texts = Documents(arrays["texts"], arrays["starts"])
    return Tokens(arrays["ids"], arrays["source"], arrays["lengths"], texts)


def _remove(folder: Path) -> None:
    for path in folder.glob("*.npy"):
        path.unlink(missing_ok=True)
    folder.rmdir()


def median_tokens(lengths: Sequence[int] | IntArray) -> int:
    """Tokens of the document in the middle."""
    return int(np.median(np.asarray(lengths)))
