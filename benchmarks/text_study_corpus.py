"""The documents of the text study: documentation of the Python packages that are installed here.

Documentation means docstrings of 400 characters and more, and .rst and .md files. Nothing of it is stored in
the repository. A package belongs to one part: the private one if sha256 of its name says so (one package in
four), else the public one; the standard library is public. Near copies are left out, within a part and across
both, so that no private document has a twin that the base has seen.
"""

from __future__ import annotations

import hashlib
import inspect
import lzma
import re
import sysconfig
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.data.near_copies import near_copies

DOCSTRING = re.compile(r'^[ \t]*[rRuU]?"""(.+?)"""', re.DOTALL | re.MULTILINE)
SHORTEST, LONGEST = 400, 6_000  # characters of a document; what comes after is not read
LARGEST_FILE = 400_000  # bytes; larger ones are generated code
SKIPPED = ("tests", "test", "testing", "_vendor", "vendor", "__pycache__", "idlelib", "lib2to3")
STANDARD, STANDARD_FOLDER = "standard library", Path(sysconfig.get_paths()["stdlib"])
FIRST_TOKEN = "<|document|>"
OUR_OWN = ("leakscope",)


class Document(NamedTuple):
    """A text and the package it documents."""

    package: str
    text: str


class Corpus(NamedTuple):
    """What the study trains and attacks models with.

    Attributes:
        public: uint16 (tokens,), the text that the base is trained on, documents one after the other.
        held_out: uint16 (tokens,), public text that it is tested on.
        tokens: int32 (records, length), the private documents; -1 behind the end.
        zlib_bytes: int64 (records,), bytes of each private document, as cut, compressed by zlib.
        vocabulary: number of tokens.
    """

    public: np.ndarray
    held_out: np.ndarray
    tokens: np.ndarray
    zlib_bytes: np.ndarray
    vocabulary: int


def is_private(package: str) -> bool:
    """Whether the documents of a package are fine-tuned on, not pretrained on."""
    return package != STANDARD and int(hashlib.sha256(package.encode()).hexdigest(), 16) % 4 == 0


def documents_of(site: Path, most_per_package: int) -> Iterator[Document]:
    """The documentation of every package in a site-packages folder, and of the standard library."""
    folders = sorted(path for path in site.iterdir() if path.is_dir() and path.suffix != ".dist-info")
    sources = [(path.name.lower(), path) for path in folders if path.name not in SKIPPED]
    for package, folder in [*sources, (STANDARD, STANDARD_FOLDER)]:
        if package in OUR_OWN:
            continue
        for text in islice(_texts(folder, package == STANDARD), most_per_package):
            yield Document(package, text)


def _texts(folder: Path, is_standard: bool) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part in SKIPPED for part in parts) or (is_standard and "site-packages" in parts):
            continue
        is_prose = path.suffix in (".rst", ".md")
        if not (is_prose or path.suffix == ".py") or path.stat().st_size > LARGEST_FILE:
            continue
        content = path.read_text(encoding="utf-8", errors="ignore").replace("\0", "")
        found = [content] if is_prose else DOCSTRING.findall(content)
        yield from (inspect.cleandoc(text)[:LONGEST] for text in found if len(text) >= SHORTEST)


def distinct(documents: list[Document]) -> list[Document]:
    """The documents without near copies of others, public ones first."""
    ordered = sorted(documents, key=lambda document: is_private(document.package))
    group = near_copies(document.text for document in ordered)
    assert group is not None, "there are fewer documents than are searched"
    return [document for i, document in enumerate(ordered) if group[i] == i]


def trained_tokenizer(texts: list[str], vocabulary: int) -> Any:
    """Byte-level BPE, trained on these texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[FIRST_TOKEN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def make_corpus(site: Path, folder: Path, n_records: int, length: int, vocabulary: int) -> None:
    """Collects the documents of a site-packages folder, and writes the corpus."""
    documents = distinct(list(documents_of(site, most_per_package=n_records)))
    public = [document.text for document in documents if not is_private(document.package)]
    private = [document for document in documents if is_private(document.package)]
    print(f"{len(public):,} public and {len(private):,} private documents without near copies", flush=True)
    rng = np.random.default_rng(0)
    public = [public[i] for i in rng.permutation(len(public))]
    tokenizer = trained_tokenizer(public[:20_000], vocabulary)
    encoded = [[0, *encoding.ids] for encoding in tokenizer.encode_batch(public)]
    n_held_out = max(1, len(encoded) // 50)
    chosen = _chosen(private, tokenizer, n_records, length, rng)
    tokens = np.full((len(chosen), length), -1, dtype=np.int32)
    for row, (_, ids) in zip(tokens, chosen, strict=True):
        row[: len(ids)] = ids
    texts = [tokenizer.decode(ids[1:]) for _, ids in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        "public": _stream(encoded[n_held_out:]),
        "held_out": _stream(encoded[:n_held_out]),
        "tokens": tokens,
        "zlib_bytes": np.array([len(zlib.compress(text.encode())) for text in texts]),
        "vocabulary": np.array(tokenizer.get_vocab_size()),
    }
    np.savez_compressed(folder / "corpus.npz", **arrays)
    (folder / "documents.txt.xz").write_bytes(lzma.compress("\0".join(texts).encode()))
    _describe(folder, documents, chosen, arrays)


def _chosen(
    private: list[Document], tokenizer: Any, n_records: int, length: int, rng: np.random.Generator
) -> list[tuple[str, list[int]]]:
    """(package, tokens) of the private records: at random, of documents of half the length and more."""
    candidates = [private[i] for i in rng.permutation(len(private))[: 2 * n_records]]
    ids = [[0, *e.ids][:length] for e in tokenizer.encode_batch([document.text for document in candidates])]
    rows = [(d.package, own) for d, own in zip(candidates, ids, strict=True) if len(own) >= length // 2]
    if len(rows) < n_records:
        print(f"only {len(rows):,} private documents are long enough", flush=True)
    return rows[:n_records]


def _stream(encoded: list[list[int]]) -> np.ndarray:
    return np.concatenate([np.array(ids, dtype=np.uint16) for ids in encoded])


def _describe(
    folder: Path,
    documents: list[Document],
    chosen: list[tuple[str, list[int]]],
    arrays: dict[str, np.ndarray],
) -> None:
    of_records = Counter(package for package, _ in chosen)
    of_base = Counter(document.package for document in documents if not is_private(document.package))
    lines = [
        f"{len(arrays['public']):,} public tokens, {len(arrays['held_out']):,} held out, vocabulary "
        f"{int(arrays['vocabulary']):,}; {len(chosen):,} private documents, "
        f"{(arrays['tokens'] >= 0).sum():,} tokens",
        *(f"public {package}: {n}" for package, n in of_base.most_common()),
        *(f"private {package}: {n}" for package, n in of_records.most_common()),
    ]
    (folder / "packages.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines[:12]), flush=True)


def read_corpus(folder: Path) -> Corpus:
    """The corpus that `make_corpus` wrote."""
    with np.load(folder / "corpus.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    return Corpus(
        arrays["public"],
        arrays["held_out"],
        arrays["tokens"],
        arrays["zlib_bytes"],
        int(arrays["vocabulary"]),
    )


def read_documents(folder: Path) -> list[str]:
    """The texts of the private records, as cut."""
    return lzma.decompress((folder / "documents.txt.xz").read_bytes()).decode().split("\0")
