"""Near copies among documents: texts that share half of their three-word sequences, or more.

The similarity of two documents is the Jaccard index of their sets of three-word sequences: shared ones over
all of both. Case and punctuation do not count; a character of a script without spaces counts as a word.
Pairs are proposed by MinHash (Broder 1997): 128 hash values per document in 32 bands of 4, and a pair that
agrees in one band is compared exactly. So no pair is reported that is not similar; a pair at the limit of
0.5 is missed with probability 0.13, at 0.6 with 0.012, at 0.7 with 0.0002.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, IntArray
from leakscope.disk.scratch import blocks

LEAST_SIMILARITY = 0.5
WORDS = 3
"""Words of a sequence."""
MOST_DOCUMENTS = 2_000_000
_N_BANDS, _ROWS = 32, 4
_NEIGHBOURS = 3  # of a document in a bucket: all pairs of up to four, a chain through more
_DOCUMENTS_AT_ONCE = 2_000
_LEAST_ESTIMATE = 0.25  # of the similarity by 128 hash values: 0.5 less 5.6 standard deviations
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[^\W{_NO_SPACES}]+|[{_NO_SPACES}]")

Hashes = npt.NDArray[np.uint64]


def near_copies(texts: Iterable[str]) -> IntArray | None:
    """For each document the first of those that it is a near copy of, or itself; int64 (documents,).

    Near copies of near copies belong together. None: there are more documents than are searched.
    """
    shingles = _shingles(list(texts))
    if len(shingles) > MOST_DOCUMENTS:
        return None
    signatures = _signatures(shingles)
    pairs = _proposed(signatures)
    pairs = pairs[_estimates(signatures, pairs) >= _LEAST_ESTIMATE]
    alike = [similarity(shingles[i], shingles[j]) >= LEAST_SIMILARITY for i, j in pairs.tolist()]
    return _components(pairs[np.array(alike, dtype=np.bool_)], len(shingles))


def similarity(first: Hashes, second: Hashes) -> float:
    """The Jaccard index of two sets, each sorted and without repeats."""
    n_shared = len(np.intersect1d(first, second, assume_unique=True))
    return n_shared / (len(first) + len(second) - n_shared)


def sequences(text: str) -> Hashes:
    """The three-word sequences of a text as 64-bit hashes, sorted, without repeats; at least one."""
    return _shingles([text])[0]


def words_of(text: str) -> list[str]:
    """The words of a text without case and punctuation; the text itself where it has none."""
    return _WORD.findall(text.casefold()) or [text.strip()]


def _shingles(texts: Sequence[str]) -> list[Hashes]:
    """The set of sequences of each text; a text of fewer words is one sequence."""
    code_of: dict[str, int] = {}
    sets = []
    for text in texts:
        words = words_of(text)
        codes = np.array([_code(word, code_of) for word in words], dtype=np.uint64)
        n_words = min(WORDS, len(codes))
        hashes = np.zeros(len(codes) - n_words + 1, dtype=np.uint64)
        for k in range(n_words):
            hashes = _mixed(hashes + codes[k : len(codes) - n_words + 1 + k])
        sets.append(np.unique(hashes))
    return sets


def _code(word: str, code_of: dict[str, int]) -> int:
    """A 64-bit number for each word: the same in every process, which Python's own hash is not."""
    code = code_of.get(word)
    if code is None:
        from hashlib import blake2b

        code = int.from_bytes(blake2b(word.encode(errors="replace"), digest_size=8).digest(), "little")
        code_of[word] = code
    return code


def _mixed(x: Hashes) -> Hashes:
    """Every bit depends on all (the finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _signatures(shingles: Sequence[Hashes]) -> npt.NDArray[np.uint32]:
    """MinHash values; uint32 (documents, bands * rows)."""
    salts = _mixed(np.arange(1, 1 + _N_BANDS * _ROWS, dtype=np.uint64)) | np.uint64(1)
    signatures = np.empty((len(shingles), len(salts)), dtype=np.uint32)
    for some in blocks(len(shingles), _DOCUMENTS_AT_ONCE):
        own = shingles[some]
        starts = np.cumsum([0, *(len(one) for one in own[:-1])])
        flat = np.concatenate(own)
        for k, salt in enumerate(salts):
            # Hashes are well mixed already: the high half of a product with an odd number orders them anew.
            drawn = (((flat ^ salt) * salt) >> np.uint64(32)).astype(np.uint32)
            signatures[some, k] = np.minimum.reduceat(drawn, starts)
    return signatures


def _proposed(signatures: npt.NDArray[np.uint32]) -> IntArray:
    """Pairs that agree in a band; int64 (pairs, 2), each once, the smaller first."""
    n, pairs = len(signatures), [np.empty(0, dtype=np.uint64)]
    for band in range(_N_BANDS):
        keys = np.zeros(n, dtype=np.uint64)
        for k in range(band * _ROWS, (band + 1) * _ROWS):
            keys = _mixed(keys + signatures[:, k])
        order = np.argsort(keys, kind="stable")
        for step in range(1, _NEIGHBOURS + 1):
            same: BoolArray = keys[order[step:]] == keys[order[:-step]] if n > step else np.zeros(0, np.bool_)
            at = np.flatnonzero(same)
            pairs.append(order[at].astype(np.uint64) * np.uint64(n) + order[at + step].astype(np.uint64))
    codes = np.unique(np.concatenate(pairs)).astype(np.int64)
    return np.stack([codes // max(n, 1), codes % max(n, 1)], axis=1)


def _estimates(signatures: npt.NDArray[np.uint32], pairs: IntArray) -> npt.NDArray[np.float64]:
    """The share of equal hash values, which estimates the similarity of a pair."""
    shares = np.empty(len(pairs))
    for some in blocks(len(pairs), 1 << 16):
        first, second = pairs[some].T
        shares[some] = (signatures[first] == signatures[second]).mean(axis=1)
    return shares


def _components(pairs: IntArray, n_documents: int) -> IntArray:
    """The first document of each connected component of the graph of pairs."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(pairs), dtype=np.int8)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n_documents, n_documents))
    _, component = connected_components(graph, directed=False)
    _, first, place = np.unique(component, return_index=True, return_inverse=True)
    found: IntArray = first[place].astype(np.int64)
    return found
