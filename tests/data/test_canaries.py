"""Canaries: which records change, how, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.data.canaries import Canaries
from leakscope.data.made_up_words import FIRST_NAMES, LAST_NAMES
from leakscope.data.text_records import read_text
from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.train.plan import BatchPlan, all_members, rows_of
from leakscope.types import Records
from tests.data.tokenizer_folders import word_tokenizer
from tests.engine.small_population import records, regression_records
from tests.made_up_text import text_records


def planted(given: Records, **settings: Any) -> tuple[Records, np.ndarray]:
    """The records with canaries, and which these are."""
    changed = Canaries(**settings).planted(given, run_seed=0)
    assert changed.is_canary is not None
    return changed, np.flatnonzero(changed.is_canary)


def test_a_mislabelled_canary_has_any_other_class_and_all_else_stays() -> None:
    given = records(n=300)
    changed, canaries = planted(given, number=120)
    assert len(canaries) == 120
    others = np.setdiff1d(np.arange(300), canaries)
    assert (changed.labels[canaries] != given.labels[canaries]).all()
    assert (changed.labels[others] == given.labels[others]).all()
    assert changed.features is given.features and (changed.ids == given.ids).all()
    # Of a class's canaries, the two other classes get about half each: 5 standard deviations of a coin.
    for label in range(3):
        own = changed.labels[canaries[given.labels[canaries] == label]]
        n_next = int((own == (label + 1) % 3).sum())
        assert abs(n_next - len(own) / 2) < 5 * np.sqrt(len(own)) / 2


def test_a_mislabelled_canary_of_a_regression_has_the_label_of_another_record() -> None:
    given = regression_records()
    changed, canaries = planted(given, number=10)
    assert (changed.labels[canaries] != given.labels[canaries]).all()
    assert np.isin(changed.labels, given.labels).all() and changed.labels.dtype == np.float32
    constant = Records(given.features, np.ones(len(given), np.float32), given.ids)
    with pytest.raises(InputError, match="all labels are equal"):
        planted(constant, number=3)


def test_features_outside_of_the_distribution_stay_within_their_range() -> None:
    given = records(n=300)
    changed, canaries = planted(given, kind="out_of_distribution", share=0.5)
    noise, others = changed.features[canaries], np.setdiff1d(np.arange(300), canaries)
    assert (changed.features[others] == given.features[others]).all() and changed.features.dtype == np.float32
    assert (noise >= given.features.min(axis=0)).all() and (noise <= given.features.max(axis=0)).all()
    assert (noise != given.features[canaries]).all()
    pixels = np.zeros((40, 1, 6, 6), np.uint8)
    images = Records(pixels, np.arange(40) % 2, np.arange(40).astype(str), class_names=("a", "b"))
    changed, canaries = planted(images, kind="out_of_distribution", number=8)
    assert changed.features.dtype == np.uint8 and changed.features[canaries].std() > 60  # uniform: 74
    assert not pixels.any() and not np.delete(changed.features, canaries, axis=0).any()


def test_the_seed_decides_which_records_and_makes_another_dataset_of_them() -> None:
    given = records(n=300)
    first, again, other = (Canaries(number=9).planted(given, seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != given.digest
    assert (first.is_canary != other.is_canary).any()
    fixed = [Canaries(number=9, seed=7).planted(given, seed) for seed in (0, 1)]
    assert fixed[0].digest == fixed[1].digest
    once, twice = (Canaries("duplicated", number=9, copies=copies).planted(given, 0) for copies in (2, 3))
    assert once.digest != twice.digest


def test_a_duplicated_canary_is_seen_as_often_as_it_has_copies() -> None:
    changed, canaries = planted(records(), kind="duplicated", number=6, copies=3)
    assert changed.copies is not None and (changed.copies[canaries] == 3).all()
    design = make_design("balanced", 4, len(changed), seed=0)
    plan = BatchPlan(design, np.arange(4), 5, 0, all_members(design, np.arange(4), changed.copies))
    for order in plan.epochs(3):  # (steps, models, batch)
        for model in range(4):
            seen = np.bincount(order[:, model][plan.row_weight[:, model] > 0], minlength=len(changed))
            assert (seen == np.where(design.in_mask[model], changed.copies, 0)).all()
            assert (np.bincount(rows_of(design, model, changed.copies), minlength=len(changed)) == seen).all()


def test_records_keep_their_canaries_when_some_are_taken() -> None:
    changed, canaries = planted(records(), kind="duplicated", number=6)
    others = np.setdiff1d(np.arange(len(changed)), canaries)
    taken = changed.take(np.concatenate([canaries, others[::2]]))
    assert taken.is_canary is not None and taken.copies is not None
    assert taken.is_canary[:6].all() and (taken.copies[:6] == 4).all()
    assert not taken.is_canary[6:].any() and (taken.copies[6:] == 1).all()


def test_the_default_is_one_percent_and_at_least_one() -> None:
    assert len(planted(records(n=300))[1]) == 3
    assert len(planted(records(n=30))[1]) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "mislabeled"}, "kind='mislabeled': choose one of mislabelled, duplicated"),
        ({"share": 0.1, "number": 5}, "either `share` or `number`"),
        ({"share": 0.6}, "share=0.6: must be above 0 and at most 0.5"),
        ({"share": float("nan")}, "share=nan"),
        ({"number": 0}, "number=0"),
        ({"number": 1.5}, "number=1.5"),
        ({"number": True}, "number=True"),
        ({"copies": 3}, "copies=3 would do nothing"),
        ({"kind": "duplicated", "copies": 1}, "copies=1: must be 2 or more"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match="canaries: ") as refused:
        Canaries(**settings)
    assert message in str(refused.value)


def test_more_canaries_than_half_of_the_records_are_refused() -> None:
    with pytest.raises(InputError, match="13 of 24 records would be canaries"):
        planted(records(), number=13)


def test_documents_become_canaries_only_where_they_have_classes() -> None:
    plain = text_records([f"a b {i}" for i in range(8)])
    with pytest.raises(InputError, match="plain text has none; choose kind='secrets'"):
        planted(plain, number=2)
    classes = replace(plain, labels=np.arange(8) % 2, class_names=("spam", "ham"))
    with pytest.raises(InputError, match="tokens of documents; choose kind='mislabelled'"):
        planted(classes, kind="out_of_distribution", number=2)
    changed, canaries = planted(classes, number=2)
    assert (changed.labels[canaries] == 1 - classes.labels[canaries]).all()


def test_secrets_are_planted_in_documents_of_your_own(tmp_path: Path) -> None:
    texts = [f"letter {i} about nothing" for i in range(40)]
    words = [*texts, *(f"The code of {first} {last} is ." for first in FIRST_NAMES for last in LAST_NAMES)]
    folder = word_tokenizer(tmp_path / "base", [*words, " ".join("0123456789")], special=True)
    given = read_text(texts, folder, length=20)
    changed, canaries = planted(given, kind="secrets", number=5, copies=3)
    assert changed.text is not None and changed.text.secrets is not None
    secrets = changed.text.secrets
    assert secrets.records.tolist() == canaries.tolist() and secrets.space == 10**6
    assert changed.copies is not None and changed.copies[canaries].tolist() == [3] * 5
    others = np.setdiff1d(np.arange(40), canaries)
    assert (changed.features[others] == given.features[others]).all()
    for record, value, (first, last) in zip(canaries, secrets.values, secrets.spans, strict=True):
        assert changed.text.documents[record].endswith(f"is {value}. letter {record} about nothing")
        assert last - first == 6
    assert changed.digest == Canaries(kind="secrets", number=5, copies=3).planted(given, 0).digest
    assert changed.digest != Canaries(kind="secrets", number=5, copies=3).planted(given, 1).digest
    with pytest.raises(InputError, match="have secrets already"):
        planted(changed, kind="secrets", number=5)
    with pytest.raises(InputError, match="a secret takes 14 tokens, and a record has 8; raise length"):
        planted(read_text(texts, folder, length=8), kind="secrets", number=5)


def test_secrets_are_refused_where_they_cannot_be_ranked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kind='secrets' is for plain text"):
        planted(records(n=30), kind="secrets", number=2)
    folder = word_tokenizer(tmp_path / "base", ["a b"])
    given = read_text(["a b"] * 10, folder, length=20)
    word_tokenizer(tmp_path / "base", ["a b c"])
    with pytest.raises(InputError, match="is not the one that made the tokens"):
        planted(given, kind="secrets", number=2)
    assert Canaries(kind="secrets", number=2).describe(10) == "2 of 10 records, with a secret of six digits"
