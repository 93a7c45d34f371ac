"""Checks of documents: what words alone say about membership, and near copies across the line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakscope.evaluate.hygiene.near_copies import check_near_copies
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.hygiene.shift import check_shift, text_shift_scores
from leakscope.evaluate.record_metadata import RecordMetadata, describe_records
from leakscope.types import Design
from tests.made_up_text import text_records

WORDS = np.array([f"word{i}" for i in range(3000)])


def documents(rng: np.random.Generator, n: int, low: int = 20, high: int = 50) -> list[str]:
    """Random words of very different frequencies, as in a language."""
    return [
        " ".join(WORDS[np.minimum(rng.zipf(1.3, rng.integers(low, high)), len(WORDS)) - 1]) for _ in range(n)
    ]


def halves(rng: np.random.Generator, n: int) -> np.ndarray:
    is_member = np.zeros(n, dtype=np.bool_)
    is_member[rng.permutation(n)[: n // 2]] = True
    return is_member


def outcome_of(texts: list[str], is_member: np.ndarray) -> Outcome:
    scores = text_shift_scores(lambda index: [texts[i] for i in index], is_member)
    return check_shift(scores, is_member, of_words=True)


def test_words_say_nothing_about_random_halves() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        texts = documents(rng, 600)
        texts[300:450] = texts[:150]  # copies on both sides: a regression remembers them, to no avail
        outcome = outcome_of(texts, halves(rng, 600))
        assert outcome.status == "ok" and outcome.numbers["low"] < 0.5 < outcome.numbers["high"]
        assert outcome.sentence.startswith("Without the model, a classifier of words separates members from")
        assert outcome.sentence.endswith("no better than guessing.")


def shifted_by(kind: str, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    texts, is_member = documents(rng, 600), halves(rng, 600)
    for i in range(600):
        if kind == "dates":  # half of each side names a year, members an earlier one
            year = 2019 + int(rng.integers(3)) + 3 * int(not is_member[i])
            texts[i] += f" in {year}" if rng.random() < 0.5 else ""
        elif kind == "topics" and is_member[i]:
            texts[i] += " " + " ".join(f"topic{k}" for k in rng.integers(0, 30, 2))
        elif kind == "lengths" and is_member[i]:
            texts[i] = " ".join(texts[i].split()[: len(texts[i].split()) * 2 // 3])
    return texts, is_member


@pytest.mark.parametrize("kind", ["dates", "topics", "lengths"])
def test_a_shifted_split_is_found_and_the_sentence_says_what_it_means(kind: str) -> None:
    outcome = outcome_of(*shifted_by(kind, np.random.default_rng(5)))
    assert outcome.status == "failed"
    assert "they differ before any model is trained" in outcome.sentence
    assert outcome.sentence.endswith("Take members and non-members at random from one source.")


def test_documents_without_common_words_are_still_compared() -> None:
    rng = np.random.default_rng(0)
    texts = [f"a{i}b" * int(rng.integers(1, 4)) for i in range(100)]
    assert outcome_of(texts, halves(rng, 100)).status == "ok"


def test_documents_of_one_author_are_in_one_fold() -> None:
    """Authors have words of their own and are members as a whole; other authors say nothing about them."""
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(200), 3)
    texts = [f"{text} author{unit} name{unit}" for text, unit in zip(documents(rng, 600), units, strict=True)]
    is_member = halves(rng, 200)[units]

    def texts_of(index: np.ndarray) -> list[str]:
        return [texts[i] for i in index]

    apart = check_shift(text_shift_scores(texts_of, is_member), is_member, of_words=True)
    together = check_shift(
        text_shift_scores(texts_of, is_member, units=units), is_member, units, of_words=True
    )
    assert apart.status == "failed" and together.status == "ok"


def test_metadata_of_text_is_about_words_and_survives_the_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    texts, is_member = shifted_by("topics", rng)
    records = text_records(texts)
    assert records.text is not None
    records = replace(records, text=replace(records.text, near_copies=np.arange(600) // 2))
    metadata = describe_records(records, Design(is_member[None]))
    assert check_shift(metadata.shift_scores, is_member).status == "failed"
    metadata.write(tmp_path)
    read = RecordMetadata.read(tmp_path)
    assert read.near_copies is not None and (read.near_copies == np.arange(600) // 2).all()
    planted = replace(metadata, is_canary=np.arange(600) < 3).without_canaries()
    assert planted.near_copies is not None and planted.near_copies[:2].tolist() == [1, 2]
    unknown = describe_records(replace(records, text=None), Design(is_member[None]))
    assert check_shift(unknown.shift_scores, is_member).status == "failed"


def test_near_copies_across_the_line_are_counted_by_model() -> None:
    group = np.array([7, 7, 2, 3, 3, 9])  # numbers of a larger set of records
    in_mask = np.array([[1, 0, 1, 0, 0, 1], [1, 1, 0, 1, 1, 0]], dtype=np.bool_)
    outcome = check_near_copies(group, in_mask)
    assert outcome.status == "warning"
    assert outcome.numbers == {
        "records_with_a_near_copy": 4.0,
        "models_with_copies_on_both_sides": 1.0,
        "share_of_nonmembers": pytest.approx((1 / 3 + 0) / 2),
    }
    assert outcome.sentence.startswith(
        "4 of 6 documents have a near copy (at least 50% of their three-word sequences are the same). In 1 "
        "of 2 models, a near copy of a member is a non-member: 16.7% of the non-members."
    )


def test_near_copies_on_one_side_change_nothing() -> None:
    together = check_near_copies(np.array([0, 0, 1, 2]), np.array([[True, True, False, False]]))
    assert together.status == "ok" and "in no model are copies on both sides" in together.sentence
    none = check_near_copies(np.arange(4), np.array([[True, True, False, False]]))
    assert none.status == "ok" and none.sentence.startswith("No document is a near copy of another")
