"""Arrays of millions of texts: ids are made, and distinct and repeated texts found.

numpy compares texts character by character and sorts them slowly. Here every text gets a 64-bit key. Where
two texts share a key, the slow way is taken, so results are always exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.disk.scratch import blocks, evict_pages, temporary

_AT_ONCE = 1 << 20
_LONGEST_TEXT = 2000  # characters of an id, a label or the name of a group
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, bits well mixed: 2^64 over the golden ratio


class Distinct(NamedTuple):
    """The distinct texts, sorted, and the index of each text among them; int32 (texts,)."""

    names: npt.NDArray[np.str_]
    codes: npt.NDArray[np.int32]


def distinct(texts: npt.NDArray[np.str_]) -> Distinct:
    """The distinct texts of an array (texts,)."""
    text_of_key: dict[int, np.str_] = {}
    for block in blocks(len(texts), _AT_ONCE):
        keys, first = np.unique(_keys(texts[block]), return_index=True)
        text_of_key = dict(zip(keys.tolist(), texts[block][first], strict=True)) | text_of_key
        evict_pages(texts)
        if len(text_of_key) > _AT_ONCE:  # nearly all are distinct: a table of them gains nothing
            return _sorted_slowly(texts)
    known = np.array(sorted(text_of_key), dtype=np.uint64)
    unordered = np.array([text_of_key[key] for key in known.tolist()], dtype=texts.dtype)
    order = np.argsort(unordered)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    codes = np.empty(len(texts), dtype=np.int32)
    for block in blocks(len(texts), _AT_ONCE):
        codes[block] = place[np.searchsorted(known, _keys(texts[block]))]
        if (unordered[order][codes[block]] != texts[block]).any():
            return _sorted_slowly(texts)
        evict_pages(texts)
    return Distinct(unordered[order], codes)


def are_unique(texts: npt.NDArray[np.str_]) -> bool:
    """True when no text occurs twice."""
    keys = np.empty(len(texts), dtype=np.uint64)
    for block in blocks(len(texts), _AT_ONCE):
        keys[block] = _keys(texts[block])
        evict_pages(texts)
    keys.sort()
    return bool((keys[1:] != keys[:-1]).all()) or len(np.unique(texts)) == len(texts)


def from_series(series: Any) -> npt.NDArray[np.str_]:
    """A polars column of texts, none missing, as numpy's, on disk where they are many.

    Raises:
        ValueError: a text is too long; each takes as much space as the longest.
    """
    longest = int(series.str.len_chars().max() or 0)
    if longest > _LONGEST_TEXT:
        raise ValueError(f"holds a text of {longest:,} characters, more than {_LONGEST_TEXT:,}")
    texts = temporary().empty((len(series),), f"U{max(longest, 1)}")
    for block in blocks(len(series), _AT_ONCE >> 2):
        texts[block] = series[block].to_list()
        evict_pages(texts)
    return texts


def numbered_ids(prefix: str, n_records: int, start: int = 0, width: int = 0) -> npt.NDArray[np.str_]:
    """`prefix` followed by the numbers from `start`, zero-padded to `width`; str (n_records,)."""
    digits = max(width, len(str(start + n_records - 1)))
    ids: npt.NDArray[np.str_] = temporary().empty((n_records,), f"U{len(prefix) + digits}")
    for block in blocks(n_records, _AT_ONCE):
        numbers = np.arange(start + block.start, start + block.stop).astype(np.str_)
        ids[block] = np.strings.add(prefix, np.strings.zfill(numbers, width))
        evict_pages(ids)
    return ids


def _keys(texts: npt.NDArray[np.str_]) -> npt.NDArray[np.uint64]:
    """Equal texts have equal keys; different ones nearly always have different keys."""
    characters = np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1)
    keys = np.zeros(len(texts), dtype=np.uint64)
    for column in characters.T:
        keys += column
        keys *= _MULTIPLIER
        keys ^= keys >> np.uint64(29)
    return keys


def _sorted_slowly(texts: npt.NDArray[np.str_]) -> Distinct:
    names, codes = np.unique(texts, return_inverse=True)
    return Distinct(names, codes.reshape(-1).astype(np.int32))
