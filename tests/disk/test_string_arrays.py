"""Distinct texts by keys equal those by sorting, also where keys mislead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.disk import string_arrays as module
from leakscope.disk.string_arrays import are_unique, distinct

TEXTS = st.lists(st.text(max_size=6), min_size=1, max_size=40).map(
    lambda found: np.array(found, dtype=np.str_)
)


@given(TEXTS)
def test_distinct_texts_are_those_of_a_sort(texts: np.ndarray) -> None:
    names, codes = np.unique(texts, return_inverse=True)
    found = distinct(texts)
    np.testing.assert_array_equal(found.names, names)
    np.testing.assert_array_equal(found.codes, codes)
    assert are_unique(texts) == (len(names) == len(texts))


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = np.random.default_rng(0).choice(["ab", "c", "", "ab "], 1000)
    whole = distinct(texts)
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    np.testing.assert_array_equal(distinct(texts).codes, whole.codes)


def test_colliding_keys_do_not_mislead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_keys", lambda texts: np.zeros(len(texts), dtype=np.uint64))
    found = distinct(np.array(["b", "a", "b"]))
    assert (found.names.tolist(), found.codes.tolist()) == (["a", "b"], [1, 0, 1])
    assert are_unique(np.array(["b", "a"]))
    assert not are_unique(np.array(["b", "a", "b"]))


def test_many_keys_are_all_different() -> None:
    """A hundred thousand numbered ids, and none of them takes the slow way."""
    keys = module._keys(np.array([f"row-{number}" for number in range(100_000)]))
    assert len(np.unique(keys)) == 100_000
