"""Documents in one array: what goes in comes out, whatever the script."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.frames.text import Documents, Secrets, Text, TextReading, Tokenizer

TOKENIZER = Tokenizer("words", "0" * 64, 10)
TEXTS = st.lists(st.text("aB \n\0é字😀\u200d", max_size=12), max_size=8)


@given(TEXTS, st.data())
def test_documents_are_a_sequence_of_the_texts(texts, data):
    documents = Documents.of(texts)
    assert list(documents) == texts and len(documents) == len(texts)
    assert documents[1:3] == texts[1:3]
    index = data.draw(st.lists(st.sampled_from(range(len(texts))), max_size=5)) if texts else []
    assert list(documents.take(np.array(index, dtype=np.int64))) == [texts[i] for i in index]


def test_a_document_that_does_not_exist_is_an_index_error():
    documents = Documents.of(["a", "b"])
    assert documents[-1] == "b"
    for index in (2, -3):
        with pytest.raises(IndexError):
            documents[index]


def test_zlib_bytes_are_those_of_the_utf8_text():
    texts = ["Grüße", "a" * 400]
    assert Text(Documents.of(texts), TOKENIZER).zlib_bytes.tolist() == [
        len(zlib.compress(text.encode())) for text in texts
    ]


def test_secrets_follow_their_records():
    secrets = Secrets(
        records=np.array([1, 4]),
        values=("1 2", "3 4"),
        alternatives=np.arange(2 * 3 * 5, dtype=np.int32).reshape(2, 3, 5),
        spans=np.array([[1, 3], [2, 4]]),
        space=100,
    )
    text = Text(Documents.of("abcdef"), TOKENIZER, secrets=secrets)
    taken = text.take(np.array([4, 0])).secrets
    assert taken is not None
    assert (taken.records.tolist(), taken.values, taken.space) == ([0], ("3 4",), 100)
    assert (taken.alternatives == secrets.alternatives[1:]).all() and taken.spans.tolist() == [[2, 4]]
    assert text.take(np.array([0, 2])).secrets is None


@pytest.mark.parametrize(
    ("long", "rule", "records", "said"),
    [
        (0, "cut", 2000, "2,000 documents, 112 tokens in the middle, none longer than 256"),
        (80, "cut", 2000, "2,000 documents, 112 tokens in the middle, 4% cut at 256"),
        (3, "cut", 2000, "2,000 documents, 112 tokens in the middle, 3 cut at 256"),
        (
            80,
            "windows",
            2240,
            "2,000 documents, 112 tokens in the middle, 4% in windows of 256: 2,240 records",
        ),
    ],
)
def test_a_reading_says_how_long_documents_are_and_what_became_of_them(long, rule, records, said):
    reading = TextReading(2000, records, 256, 112, long, rule, ("3 documents are empty",))
    assert reading.lines() == [said, "Check: 3 documents are empty"]
